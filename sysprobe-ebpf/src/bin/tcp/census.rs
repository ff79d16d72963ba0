//! All sockets at one moment: what each has gathered is booked, and their owners' sockets are counted by state.

use aya_ebpf::bindings::BPF_F_MMAPABLE;
use aya_ebpf::btf_maps::Array;
use aya_ebpf::macros::btf_map;
use sysprobe_common::tcp::{Sockets, state};
use sysprobe_ebpf::atomic::{add_u32, add_u64};
use sysprobe_ebpf::cgroup::owner_of_task;
use sysprobe_ebpf::kernel::Typed;
use sysprobe_ebpf::socket::is_tcp;

use crate::booking::{settle, slot_of};
use crate::memory::{known, tcp};
use crate::{life, socket};

/// By slot. Sized by the agent, which sets it to 0 before each census.
#[btf_map]
static TCP_CENSUS: Array<Sockets, 1, { BPF_F_MMAPABLE as usize }> = Array::new();

#[inline(always)]
pub(crate) fn take(socket: Typed) {
    let Some(tcp) = tcp(socket) else { return };
    let Some(remembered) = known(socket) else { return };
    let state = socket::state(socket);
    // A connection that is being made for a listening socket still has that one's totals. What nobody owns yet keeps its own.
    if remembered.owner != 0 && state != state::SYN_RECV {
        settle(tcp, remembered, state == state::LISTEN);
    }
    if state == state::CLOSE {
        return;
    }
    let Some(sockets) = TCP_CENSUS.get_ptr_mut(slot_of(remembered.owner)) else { return };
    // SAFETY: the pointer is into the map's memory and stays valid while the program runs.
    let sockets = unsafe { &mut *sockets };
    if let Some(count) = sockets.states.get_mut(state as usize) {
        add_u32(count, 1);
    }
    if state == state::LISTEN {
        queue(sockets, socket);
    }
}

/// A limit of n lets n + 1 connections wait.
#[inline(always)]
fn queue(sockets: &mut Sockets, listening: Typed) {
    let (waiting, limit) = socket::accept_queue(listening);
    let limit = limit.saturating_add(1);
    add_u64(&mut sockets.waiting, u64::from(waiting));
    add_u64(&mut sockets.limit, u64::from(limit));
    let fullness = waiting.saturating_mul(1024).checked_div(limit).unwrap_or(0);
    if fullness > sockets.fullest {
        sockets.fullest = fullness;
    }
}

/// Remembers a socket that a task has open.
#[inline(always)]
pub(crate) fn greet(task: Typed, socket: Typed) {
    if !is_tcp(socket) {
        return;
    }
    if let Some(tcp) = tcp(socket) {
        life::remember(socket, tcp, owner_of_task(task));
    }
}
