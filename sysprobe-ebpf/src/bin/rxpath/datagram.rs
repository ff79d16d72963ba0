//! UDP: from a datagram that comes while none is followed, by how many are before it in the socket's queues.

use sysprobe_common::rxpath::{Point, Protocol, Unread};
use sysprobe_ebpf::atomic::add_u64;
use sysprobe_ebpf::clock::now;
use sysprobe_ebpf::kernel::{ABSENT, Address, Object};
use sysprobe_ebpf::settings;
use sysprobe_ebpf::socket::NOT_TAKEN;

use crate::booking::points_of;
use crate::memory::{Sock, known};
use crate::name;
use crate::way::{self, begin_or_lose, end};

settings!(
    /// `sk_buff_head` of those that came last: the last one of them, and how many there are.
    OFF_SK_RECEIVED_LAST,
    OFF_SK_RECEIVED_COUNT,
    /// The same of those that a reader, or a call to `poll`, has taken from there together.
    OFF_UDP_TAKEN_LAST,
    OFF_UDP_TAKEN_COUNT,
);

/// A datagram has reached its socket. One before it that never became readable found no room.
#[inline(always)]
pub(crate) fn arrived(socket: Sock, packet: impl Object) {
    // A reader would not be noticed, or the socket's end.
    if points_of(Protocol::Udp as u32) == 0 {
        return;
    }
    let remembered = known(socket);
    if remembered
        .as_ref()
        .is_some_and(|unread| unread.waits != 0 && unread.is_ready() && !is_gone(socket, unread))
    {
        return;
    }
    if let Some(name) = name::of_datagram(packet) {
        begin_or_lose(socket, remembered, (name, Protocol::Udp), u64::from(queued(socket)), false);
    }
}

/// The tasks that wait for a socket are about to be told: its last datagram can be read.
#[inline(always)]
pub(crate) fn became_ready(socket: Sock) {
    let points = points_of(Protocol::Udp as u32);
    if points == 0 {
        return;
    }
    let remembered = known(socket);
    if points & u64::from(Point::Transport.bit()) != 0 {
        if let Some(unread) = remembered.filter(|unread| unread.waits != 0 && !unread.is_ready()) {
            way::became_ready(unread);
        }
        return;
    }
    if remembered.as_ref().is_some_and(|unread| unread.waits != 0 && !is_gone(socket, unread)) {
        return;
    }
    // A reader that never sleeps has been quicker.
    let Some(before) = queued(socket).checked_sub(1) else { return };
    if let Some(name) = last(socket).and_then(name::of_datagram) {
        begin_or_lose(socket, remembered, (name, Protocol::Udp), u64::from(before), true);
    }
}

/// The datagram that came last.
#[inline(always)]
fn last(socket: Sock) -> Option<Address> {
    let socket = Address(socket.address());
    if socket.load_u32(&OFF_SK_RECEIVED_COUNT) != 0 {
        socket.follow(&OFF_SK_RECEIVED_LAST)
    } else if taken(socket) != 0 {
        socket.follow(&OFF_UDP_TAKEN_LAST)
    } else {
        None
    }
}

/// A call to receive has ended.
#[inline(always)]
pub(crate) fn received(socket: Sock, result: i32, flags: u32) {
    if result >= 0 && flags & NOT_TAKEN == 0 {
        read(socket);
    }
}

/// A datagram was copied to a reader, and is let go unless the reader has only looked at it.
#[inline(always)]
pub(crate) fn consumed(socket: Sock, length: i32) {
    if length >= 0 {
        read(socket);
    }
}

#[inline(always)]
fn read(socket: Sock) {
    let Some(unread) = known(socket).filter(|unread| unread.waits != 0) else { return };
    if unread.position == 0 {
        end(socket, unread, Protocol::Udp);
    } else {
        // Several may read at the same time.
        add_u64(&mut unread.position, u64::MAX);
    }
}

/// Whether a datagram that is followed is in no queue any more, and no task is copying it either: what was
/// taken before it was not read, or it was not itself. To copy one takes microseconds.
#[inline(always)]
fn is_gone(socket: Sock, unread: &Unread) -> bool {
    const LONG_AGO: u64 = 10_000_000;
    u64::from(queued(socket)) <= unread.position && now() - unread.moments[Point::Ready as usize] > LONG_AGO
}

/// How many datagrams are unread.
#[inline(always)]
fn queued(socket: Sock) -> u32 {
    let socket = Address(socket.address());
    socket.load_u32(&OFF_SK_RECEIVED_COUNT) + taken(socket)
}

/// How many of them a reader has taken together and not read yet.
#[inline(always)]
fn taken(socket: Address) -> u32 {
    if OFF_UDP_TAKEN_COUNT.load() == ABSENT { 0 } else { socket.load_u32(&OFF_UDP_TAKEN_COUNT) }
}
