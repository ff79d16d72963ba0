//! Received data on its way from a socket to the task that reads it.
//!
//! One item at a time is followed on a socket. Data that arrives in between waits for the same reader.

use sysprobe_common::rxpath::{Point, Protocol, Unread};
use sysprobe_ebpf::clock::now;
use sysprobe_ebpf::volatile::{load, store};

use crate::accounting::book;
use crate::losses::lose;
use crate::memory::{Sock, current, insert, replace};
use crate::name::Name;
use crate::{arrival, reader, share, slow};

/// When followed data is readable.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Readable {
    Later,
    Now,
    /// Since it reached its socket, where it was queued behind other unread data. It did so soon after its
    /// arrival.
    SinceArrival,
}

/// Begins to follow data that has just reached its socket through a device, or counts why its arrival there
/// is not known.
#[inline(always)]
pub(crate) fn begin_or_lose(
    socket: Sock,
    remembered: Option<&mut Unread>,
    (name, protocol): (Name, Protocol),
    position: u64,
    readable: Readable,
) {
    let is_begun = begin(socket, remembered, name, position, readable);
    if !is_begun && share::follows_all() {
        lose(arrival::loss(name, protocol, now()));
    }
}

/// Begins to follow data in its socket, if its arrival at a device is known, and returns whether it is.
#[inline(always)]
pub(crate) fn begin(
    socket: Sock,
    remembered: Option<&mut Unread>,
    name: Name,
    position: u64,
    readable: Readable,
) -> bool {
    let now = now();
    let (device, ip) = arrival::of(name, now);
    if device == 0 {
        return false;
    }
    let mut new = Unread { position, waits: 1, weight: share::weight(), ..Unread::NONE };
    new.timestamps[Point::Device as usize] = device;
    new.timestamps[Point::Ip as usize] = ip;
    let arrived = if ip == 0 { device } else { ip };
    let reached = if readable == Readable::SinceArrival { arrived } else { now };
    new.timestamps[Point::Transport as usize] = reached;
    new.timestamps[Point::Ready as usize] = if readable == Readable::Later { 0 } else { reached };
    share::count_waiting(remembered.as_deref(), &new);
    match remembered {
        Some(unread) => *unread = new,
        None => insert(socket, &mut new),
    }
    true
}

/// Waiting tasks are about to be notified.
#[inline(always)]
pub(crate) fn became_ready(unread: &mut Unread) {
    unread.timestamps[Point::Ready as usize] = now();
}

/// The first byte has been copied to the current task.
#[inline(always)]
pub(crate) fn end(socket: Sock, unread: &mut Unread, protocol: Protocol) {
    if !replace(&mut unread.waits, 1, 0) {
        return;
    }
    share::count_read(unread);
    let now = now();
    store(&mut unread.timestamps[Point::Read as usize], now);
    if !unread.is_ready() {
        store(&mut unread.timestamps[Point::Ready as usize], now);
    }
    let (woken, waited) = reader::since(load(&unread.timestamps[Point::Ready as usize]));
    store(&mut unread.timestamps[Point::Wakeup as usize], woken);
    store(&mut unread.timestamps[Point::Run as usize], woken + waited);
    let owner = current();
    book(owner, protocol, unread);
    slow::tell(socket, owner, protocol, unread);
}
