//! The lifecycle of a socket: it connects or listens, is accepted, read and closed.

use sysprobe_common::cgroup::KERNEL;
use sysprobe_common::tcp::socket_flag::{CONNECTING, FIN_SENT, HAS_READ};
use sysprobe_common::tcp::{Count, Socket, TcpLoss, Totals, state};
use sysprobe_ebpf::clock::now;
use sysprobe_ebpf::kernel::Object as _;

use crate::accounting::{add_time, book_on_the_way, book_totals, book_totals_at, count, stats_of};
use crate::losses::lose;
use crate::memory::{
    connecting, current, forget, has_room, heir, insert, known, listens, listens_no_more, refuse, strangers,
    tcp,
};
use crate::socket::{self, OFF_TCP_RETRANSMITTED};
use crate::{HAS_SCAN, Sock, readers, round_trip};

const ECONNREFUSED: u32 = 111;
const ETIMEDOUT: u32 = 110;
const EHOSTUNREACH: u32 = 113;
const ENETUNREACH: u32 = 101;

/// The record of a socket. A new one has the totals so far as its baseline.
#[inline(always)]
pub(crate) fn remember(socket: Sock, tcp: Sock, owner: u64) -> Option<&'static mut Socket> {
    if let Some(remembered) = known(socket) {
        return Some(remembered);
    }
    // This runs again at reads, and without socket storage at each segment, so a refusal must cost next to
    // nothing. It is counted where a socket begins.
    if !has_room() {
        return None;
    }
    let is_listening = socket::state(socket) == state::LISTEN;
    let booked = socket::totals(tcp, &Socket::NEW, is_listening);
    insert(socket, &mut Socket::booked(owner, &booked))
}

/// The same for a socket that begins or is first seen.
#[inline(always)]
pub(crate) fn remember_first(socket: Sock, tcp: Sock, owner: u64) -> Option<&'static mut Socket> {
    let remembered = remember(socket, tcp, owner);
    if remembered.is_none() && !has_room() {
        refuse();
    }
    remembered
}

/// The kernel changes a socket's state, with the socket locked.
#[inline(always)]
pub(crate) fn changed(socket: Sock, from: u32, to: u32) {
    let Some(tcp) = tcp(socket) else { return };
    match to {
        state::SYN_SENT | state::LISTEN => begun(socket, tcp, to),
        state::SYN_RECV if from != state::SYN_SENT => born(socket, tcp),
        state::ESTABLISHED => established(socket, tcp, from),
        state::FIN_WAIT1 | state::LAST_ACK => closed(socket, tcp),
        state::CLOSE => gone(socket, tcp, from),
        _ => {}
    }
}

/// A task connects or listens.
#[inline(always)]
fn begun(socket: Sock, tcp: Sock, to: u32) {
    let owner = connecting(socket);
    if to == state::LISTEN {
        listens(socket, owner);
    }
    let Some(remembered) = remember_first(socket, tcp, owner) else { return };
    remembered.owner = owner;
    // A socket that is used again may have had its totals reset to 0.
    remembered.set_booked(&socket::totals(tcp, &Socket::NEW, to == state::LISTEN));
    remembered.begin(if to == state::SYN_SENT { Some(now()) } else { None });
}

/// A listening socket gets a new connection. Its SYN-ACK was sent before there was a socket to count it.
#[inline(always)]
fn born(socket: Sock, tcp: Sock) {
    let booked = Totals { sent_segments: u32::MAX, ..Totals::ZERO };
    let mut new = Socket::booked(heir(socket, tcp), &booked);
    if let Some(remembered) = insert(socket, &mut new) {
        *remembered = new;
    }
}

#[inline(always)]
fn established(socket: Sock, tcp: Sock, from: u32) {
    let Some(remembered) = known(socket) else { return };
    let repeated = tcp.load_u32(&OFF_TCP_RETRANSMITTED);
    if !remembered.has(CONNECTING) {
        if from == state::SYN_RECV {
            // The kernel's total begins with the retransmitted SYN-ACKs. They are counted already, and were
            // not segments of this socket.
            remembered.retransmitted = repeated;
            remembered.sent_segments = u32::MAX.wrapping_sub(repeated);
        }
        return;
    }
    let took = connected(remembered);
    if let Some(stats) = stats_of(remembered.owner) {
        add_time(&mut stats.connect, took);
        count(stats, Count::RetransmittedSyns, u64::from(repeated));
    }
}

/// Only a task closes its end, so it becomes the owner if there is none.
#[inline(always)]
fn closed(socket: Sock, tcp: Sock) {
    let Some(remembered) = remember(socket, tcp, 0) else { return };
    remembered.flags |= FIN_SENT;
    if remembered.owner == 0 {
        remembered.owner = current();
    }
}

#[inline(always)]
fn gone(socket: Sock, tcp: Sock, from: u32) {
    if from == state::LISTEN {
        listens_no_more(socket);
    }
    let Some(remembered) = known(socket) else { return };
    // In any other state, the change to `ESTABLISHED` was missed.
    if remembered.has(CONNECTING) && (from == state::SYN_SENT || from == state::SYN_RECV) {
        connected(remembered);
        if let Some(stats) = stats_of(remembered.owner) {
            count(stats, failure(socket::error(socket)), 1);
            count(stats, Count::RetransmittedSyns, u64::from(tcp.load_u32(&OFF_TCP_RETRANSMITTED)));
        }
    }
    // The event of the FIN may have been missed.
    if socket::is_after_fin(from) {
        remembered.flags |= FIN_SENT;
    }
    // A socket that is used again loses its totals after this.
    book_totals(tcp, remembered, from == state::LISTEN);
}

/// Ends the connection's setup, and returns how long it took.
#[inline(always)]
fn connected(remembered: &mut Socket) -> u64 {
    let took = now().checked_sub(remembered.end_connecting());
    took.unwrap_or_else(|| {
        lose(TcpLoss::BackwardsClock);
        0
    })
}

#[inline(always)]
const fn failure(error: u32) -> Count {
    match error {
        ECONNREFUSED => Count::ConnectRefused,
        ETIMEDOUT => Count::ConnectTimedOut,
        EHOSTUNREACH | ENETUNREACH => Count::ConnectUnreachable,
        _ => Count::ConnectAborted,
    }
}

/// Data was copied to a reader, which owns the socket from now on.
#[inline(always)]
pub(crate) fn read(socket: Sock) {
    // Some of the kernel's own readers run in a softirq, on top of an unrelated task.
    if !socket::is_used_by_task(socket) {
        return;
    }
    let Some(tcp) = tcp(socket) else { return };
    if readers::is_repeated(socket, tcp) {
        return;
    }
    let owner = current();
    let Some(remembered) = remember(socket, tcp, owner) else { return };
    // Never both, because the verifier would follow every combination of their paths.
    if remembered.owner != owner {
        hand_on(tcp, remembered, owner);
    } else if HAS_SCAN {
        round_trip::sample_if_due(tcp, remembered);
    }
    remembered.set_read(socket::read_up_to(tcp));
    book_on_the_way(tcp, remembered);
}

/// If the old owner has never read, the reader gets all data. Otherwise it gets only the data that the old
/// owner has not read.
#[inline(always)]
fn hand_on(tcp: Sock, remembered: &mut Socket, owner: u64) {
    if remembered.has(HAS_READ) {
        let mut now = socket::totals(tcp, remembered, false);
        now.received_bytes = remembered.consumed(now.received_bytes, socket::received_up_to(tcp));
        book_totals_at(tcp, remembered, &now, false);
    }
    remembered.owner = owner;
}

/// The kernel is about to free a socket.
#[inline(always)]
pub(crate) fn ended(socket: Sock) {
    readers::forget(socket);
    let Some(tcp) = tcp(socket) else { return };
    let Some(remembered) = known(socket) else {
        if socket::totals(tcp, &Socket::NEW, false) != Totals::ZERO {
            lose(TcpLoss::UnknownSocket);
        }
        return;
    };
    book_totals(tcp, remembered, false);
    if !remembered.is_sampled() {
        round_trip::sample(tcp, remembered.owner);
    }
    forget(socket);
}

#[inline(always)]
fn owner_of(listening: Sock) -> u64 {
    known(listening).map_or_else(|| strangers(listening), |remembered| remembered.owner)
}

/// A SYN-ACK is retransmitted, of a connection that has no socket yet. The request has the peer's address.
#[inline(always)]
pub(crate) fn repeated_synack(listening: Sock, asked: Sock) {
    let owner = owner_of(listening);
    let Some(stats) = stats_of(owner) else { return };
    count(stats, Count::Retransmitted, 1);
    count(stats, Count::RetransmittedSyns, 1);
    if let Some(traffic) = stats.traffic.get_mut(socket::family(asked) as usize) {
        sysprobe_ebpf::atomic::add_u64(&mut traffic.sent_packets, 1);
    }
}

/// A connection needs room in the accept queue. The kernel is about to check whether there is some.
#[inline(always)]
pub(crate) fn asks_for_place(listening: Sock) {
    if !socket::is_full(listening) {
        return;
    }
    let owner = owner_of(listening);
    if let Some(stats) = stats_of(owner) {
        count(stats, Count::AcceptOverflows, 1);
    }
}

#[inline(always)]
pub(crate) fn reset(socket: Sock, direction: Count) {
    let owner = match known(socket) {
        Some(remembered) => remembered.owner,
        // The kernel itself answers: there is no socket, no longer, or not yet.
        None if socket.address() == 0 || socket::is_remainder(socket) => KERNEL,
        None => strangers(socket),
    };
    if let Some(stats) = stats_of(owner) {
        count(stats, direction, 1);
    }
}
