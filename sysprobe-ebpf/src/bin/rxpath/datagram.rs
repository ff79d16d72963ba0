//! UDP: follows a datagram that arrives while none is followed, by the number of datagrams before it in the
//! socket's queues.

use sysprobe_common::rxpath::{Point, Protocol, Unread};
use sysprobe_ebpf::atomic::add_u64;
use sysprobe_ebpf::clock::now;
use sysprobe_ebpf::globals;
use sysprobe_ebpf::kernel::{ABSENT, Address, Object};
use sysprobe_ebpf::socket::NOT_TAKEN;

use crate::accounting::points_of;
use crate::memory::{Sock, known};
use crate::name;
use crate::receive_path::{self, Readable, begin_or_lose, end};

globals!(
    /// `sk_receive_queue`: its last datagram, and the number of datagrams in it.
    OFF_SK_RECEIVED_LAST,
    OFF_SK_RECEIVED_COUNT,
    /// The same for `reader_queue`, to which a reader or a call to `poll` moves all of them at once.
    OFF_UDP_TAKEN_LAST,
    OFF_UDP_TAKEN_COUNT,
);

/// A datagram has reached its socket. It replaces a recorded one that never became readable for lack of room.
#[inline(always)]
pub(crate) fn arrived(socket: Sock, packet: impl Object) {
    // The programs at readers and at the socket's end may not be attached yet.
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
        begin_or_lose(socket, remembered, (name, Protocol::Udp), u64::from(queued(socket)), Readable::Later);
    }
}

/// The socket's last datagram becomes readable, and waiting tasks are about to be notified.
#[inline(always)]
pub(crate) fn became_ready(socket: Sock) {
    let points = points_of(Protocol::Udp as u32);
    if points == 0 {
        return;
    }
    let remembered = known(socket);
    if points & u64::from(Point::Transport.bit()) != 0 {
        if let Some(unread) = remembered.filter(|unread| unread.waits != 0 && !unread.is_ready()) {
            receive_path::became_ready(unread);
        }
        return;
    }
    if remembered.as_ref().is_some_and(|unread| unread.waits != 0 && !is_gone(socket, unread)) {
        return;
    }
    // A reader that never sleeps has already taken it.
    let Some(before) = queued(socket).checked_sub(1) else { return };
    if let Some(name) = last(socket).and_then(name::of_datagram) {
        begin_or_lose(socket, remembered, (name, Protocol::Udp), u64::from(before), Readable::Now);
    }
}

/// The last datagram in the queues.
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

/// A receive call has returned.
#[inline(always)]
pub(crate) fn received(socket: Sock, result: i32, flags: u32) {
    if result >= 0 && flags & NOT_TAKEN == 0 {
        read(socket);
    }
}

/// A datagram was copied to a reader. It is freed, unless the reader only peeked (the length is negative).
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
        // Several tasks may read at the same time.
        add_u64(&mut unread.position, u64::MAX);
    }
}

/// Whether the followed datagram is in no queue any more and was not read: it or one before it was dropped. A
/// task that is just copying it takes only microseconds.
#[inline(always)]
fn is_gone(socket: Sock, unread: &Unread) -> bool {
    const LONG_AGO: u64 = 10_000_000;
    u64::from(queued(socket)) <= unread.position
        && now() - unread.timestamps[Point::Ready as usize] > LONG_AGO
}

/// How many datagrams are unread.
#[inline(always)]
fn queued(socket: Sock) -> u32 {
    let socket = Address(socket.address());
    socket.load_u32(&OFF_SK_RECEIVED_COUNT) + taken(socket)
}

/// How many of them a reader has moved to its queue and not read yet.
#[inline(always)]
fn taken(socket: Address) -> u32 {
    if OFF_UDP_TAKEN_COUNT.load() == ABSENT { 0 } else { socket.load_u32(&OFF_UDP_TAKEN_COUNT) }
}
