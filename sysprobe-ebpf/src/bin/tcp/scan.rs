//! The socket scan: accounts for each socket, and counts the owners' sockets by state.
//!
//! The kernel walks a map of socket storage in parts, and resumes by the number of elements that it has
//! passed. New sockets shift this count, so it meets some twice: each record holds the number of the scan
//! that counted it last.

use aya_ebpf::bindings::BPF_F_MMAPABLE;
use aya_ebpf::btf_maps::Array;
use aya_ebpf::macros::btf_map;
use sysprobe_common::tcp::{Socket, Sockets, Totals, state};
use sysprobe_ebpf::atomic::{add_u32, add_u64};
use sysprobe_ebpf::cgroup::owner_of_task;
use sysprobe_ebpf::iteration::PartEnd;
use sysprobe_ebpf::kernel::{Address, Object, Typed};
use sysprobe_ebpf::socket::{is_multipath, is_tcp};

use crate::accounting::{book_totals_at, slot_of};
use crate::memory::{insert, known, listens, listens_at, tcp};
use crate::multipath::first_subflow;
use crate::{lifecycle, round_trip, socket};

/// By slot. Sized by the agent, which sets it to 0 before each scan and takes the counts of a complete one.
#[btf_map]
static TCP_SCAN: Array<Sockets, 1, { BPF_F_MMAPABLE as usize }> = Array::new();
/// The number of the current scan.
#[btf_map]
static TCP_PASS: Array<u64, 1, { BPF_F_MMAPABLE as usize }> = Array::new();
#[btf_map]
pub(crate) static TCP_PART_END: PartEnd = PartEnd::new();

#[inline(always)]
pub(crate) fn take(socket: Typed) {
    let Some(remembered) = known(socket) else { return };
    let pass = Socket::pass(TCP_PASS.get(0).copied().unwrap_or(0));
    if remembered.visited == pass {
        return;
    }
    remembered.visited = pass;
    match tcp(socket) {
        Some(tcp) => take_tcp(socket, tcp, remembered),
        None => take_multipath(socket, remembered),
    }
}

#[inline(always)]
fn take_tcp(socket: Typed, tcp: Typed, remembered: &mut Socket) {
    let state = socket::state(socket);
    // A connection in `SYN_RECV` still has the totals of its listening socket. A socket without an owner
    // keeps its totals for later.
    if remembered.owner != 0 && state != state::SYN_RECV {
        let is_listening = state == state::LISTEN;
        let now = totals(tcp, remembered, is_listening);
        book_totals_at(tcp, remembered, &now, is_listening);
    }
    if state == state::CLOSE {
        return;
    }
    if state == state::ESTABLISHED {
        round_trip::sample_if_due(tcp, remembered);
    }
    let sockets = count(remembered.owner, state);
    if state == state::LISTEN
        && let Some(sockets) = sockets
    {
        queue(sockets, socket);
    }
}

/// The totals of a socket that is not locked. Its FIN may be acknowledged at any moment, so it is taken for
/// acknowledged as soon as it is sent. Until it is, one byte too little is counted.
#[inline(always)]
fn totals(tcp: Typed, remembered: &Socket, is_listening: bool) -> Totals {
    socket::totals_with(tcp, remembered, is_listening, || socket::has_sent_fin(tcp, remembered))
}

/// Of MPTCP sockets, only listening ones that are older than the agent are recorded. Their queue and drops
/// are in their first subflow.
#[inline(always)]
fn take_multipath(socket: Typed, remembered: &mut Socket) {
    if socket::state(socket) != state::LISTEN {
        return;
    }
    let Some(subflow) = first_subflow(socket) else { return };
    let now = Totals { dropped_or_limited: drops(subflow), ..Totals::ZERO };
    book_totals_at(socket, remembered, &now, true);
    if let Some(sockets) = count(remembered.owner, state::LISTEN) {
        queue(sockets, subflow);
    }
}

/// Counts a socket of an owner.
#[inline(always)]
fn count(owner: u64, state: u32) -> Option<&'static mut Sockets> {
    let sockets = TCP_SCAN.get_ptr_mut(slot_of(owner))?;
    // SAFETY: the pointer is into the map's memory and stays valid while the program runs.
    let sockets = unsafe { &mut *sockets };
    if let Some(count) = sockets.states.get_mut(state as usize) {
        add_u32(count, 1);
    }
    Some(sockets)
}

/// A limit of n lets n + 1 connections wait.
#[inline(always)]
fn queue(sockets: &mut Sockets, listening: impl Object) {
    let (waiting, limit) = socket::accept_queue(listening);
    let limit = limit.saturating_add(1);
    add_u64(&mut sockets.waiting, u64::from(waiting));
    add_u64(&mut sockets.limit, u64::from(limit));
    let fullness = waiting.saturating_mul(1024).checked_div(limit).unwrap_or(0);
    if fullness > sockets.fullest {
        sockets.fullest = fullness;
    }
}

#[inline(always)]
fn drops(listening: Address) -> u32 {
    listening.load_u32(&socket::OFF_SK_DROPS)
}

/// Records a socket that a task has open.
#[inline(always)]
pub(crate) fn register(task: Typed, socket: Typed) {
    if is_tcp(socket) {
        if let Some(tcp) = tcp(socket) {
            let owner = owner_of_task(task);
            lifecycle::remember_first(socket, tcp, owner);
            if socket::state(socket) == state::LISTEN {
                listens(socket, owner);
            }
        }
    } else if is_multipath(socket) && socket::state(socket) == state::LISTEN {
        register_multipath(task, socket);
    }
}

/// The TCP socket below a listening MPTCP socket is the kernel's: no task has it open.
#[inline(always)]
fn register_multipath(task: Typed, socket: Typed) {
    if known(socket).is_some() {
        return;
    }
    let Some(subflow) = first_subflow(socket) else { return };
    let owner = owner_of_task(task);
    listens_at(subflow.address(), owner);
    let booked = Totals { dropped_or_limited: drops(subflow), ..Totals::ZERO };
    insert(socket, &mut Socket::booked(owner, &booked));
}
