//! The way of what a socket receives, to whoever reads it.
//!
//! One thing at a time is followed on a socket: what arrives while that waits to be read waits for the same reader.

use aya_ebpf::helpers::bpf_ktime_get_ns;
use sysprobe_common::rxpath::{Protocol, RxpathLoss, Unread};

use crate::booking::{book, lose};
use crate::memory::{Sock, current, insert};
use crate::name::Name;
use crate::{arrival, reader};

/// Begins to follow what has just reached its socket, if it is known when it came.
#[inline(always)]
pub(crate) fn begin(socket: Sock, remembered: Option<&mut Unread>, name: Name, new: Unread) {
    let now = now();
    let (device, ip) = arrival::of(name, now);
    if device == 0 {
        lose(RxpathLoss::NoDevice);
        return;
    }
    let transport = now;
    let ready = if new.ready == 0 { 0 } else { now };
    let mut new = Unread { device, ip, transport, ready, waits: 1, ..new };
    match remembered {
        Some(unread) => *unread = new,
        None if insert(socket, &mut new).is_none() => lose(RxpathLoss::NoMemory),
        None => {}
    }
}

/// Its first byte has been copied to the running task.
#[inline(always)]
pub(crate) fn end(unread: &mut Unread, protocol: Protocol) {
    let now = now();
    unread.waits = 0;
    let ready = if unread.ready == 0 { now } else { unread.ready };
    let (woken, running) = reader::since(ready);
    let moments = [unread.device, unread.ip, unread.transport, ready, woken, running, now];
    book(current(), protocol, moments);
}

#[inline(always)]
pub(crate) fn now() -> u64 {
    // SAFETY: the helper only reads a clock.
    unsafe { bpf_ktime_get_ns() }
}
