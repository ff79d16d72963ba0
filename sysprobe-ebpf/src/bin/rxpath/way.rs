//! The way of what a socket receives: from its first segment that nobody has read, to whoever reads it.
//!
//! One thing at a time is followed on a socket: what arrives while that waits to be read waits for the same reader.

use aya_ebpf::helpers::{bpf_ktime_get_ns, bpf_probe_read_kernel};
use sysprobe_common::rxpath::{RxpathLoss, Unread};
use sysprobe_ebpf::cgroup::owner_of_current;
use sysprobe_ebpf::kernel::Object;
use sysprobe_ebpf::settings;

use crate::arrival;
use crate::booking::{book, lose};
use crate::memory::{Sock, insert, known, tcp};
use crate::reader;

settings!(
    OFF_SK_LOCK_OWNED,
    OFF_SKB_CB,
    OFF_CB_SEQ,
    OFF_CB_END_SEQ,
    OFF_CB_TCP_FLAGS,
    OFF_TCP_COPIED_SEQ,
    OFF_TCP_RCV_NXT,
);

const FIN: u32 = 1;
const SYN: u32 = 2;

/// An established connection gets a segment.
#[inline(always)]
pub(crate) fn segment_arrived(socket: Sock, packet: impl Object) {
    let remembered = known(socket);
    if remembered.as_ref().is_some_and(|unread| unread.waits != 0) {
        return;
    }
    let Some(tcp) = tcp(socket) else { return };
    let Some(segment) = Segment::of(packet) else { return };
    let next = tcp.load_u32(&OFF_TCP_RCV_NXT);
    if !segment.has_data() || !segment.begins_or_covers(next) {
        return;
    }
    let now = now();
    let device = arrival::of_segment(segment.first, now);
    if device == 0 {
        lose(RxpathLoss::NoDevice);
        return;
    }
    let mut new = Unread { device, transport: now, position: next, waits: 1, ..Unread::NONE };
    match remembered {
        Some(unread) => *unread = new,
        None if insert(socket, &mut new).is_none() => lose(RxpathLoss::NoMemory),
        None => {}
    }
}

/// Whoever waits for a socket is about to be told.
#[inline(always)]
pub(crate) fn became_ready(socket: Sock) {
    let Some(unread) = known(socket).filter(|unread| unread.waits != 0 && unread.ready == 0) else { return };
    let Some(tcp) = tcp(socket) else { return };
    if is_after(tcp.load_u32(&OFF_TCP_RCV_NXT), unread.position) {
        unread.ready = now();
    }
}

/// Something was copied to a reader.
#[inline(always)]
pub(crate) fn read(socket: Sock) {
    let Some(unread) = known(socket).filter(|unread| unread.waits != 0) else { return };
    let Some(tcp) = tcp(socket) else { return };
    // Some of the kernel's own readers run in the softirq, on top of anybody.
    if socket.load_u32(&OFF_SK_LOCK_OWNED) == 0
        || !is_after(tcp.load_u32(&OFF_TCP_COPIED_SEQ), unread.position)
    {
        return;
    }
    let now = now();
    unread.waits = 0;
    let ready = if unread.ready == 0 { now } else { unread.ready };
    let (woken, running) = reader::since(ready);
    book(owner_of_current(), [unread.device, unread.ip, unread.transport, ready, woken, running, now]);
}

/// A segment of TCP, by the numbers of its bytes.
struct Segment {
    first: u32,
    end: u32,
    flags: u32,
}

impl Segment {
    /// What TCP has noted with the packet (`tcp_skb_cb`).
    #[inline(always)]
    fn of(packet: impl Object) -> Option<Self> {
        let noted = packet.address() + u64::from(OFF_SKB_CB.load());
        let at = |offset: u32| (noted + u64::from(offset)) as *const u32;
        // SAFETY: the helper checks the address.
        unsafe {
            Some(Self {
                first: bpf_probe_read_kernel(at(OFF_CB_SEQ.load())).ok()?,
                end: bpf_probe_read_kernel(at(OFF_CB_END_SEQ.load())).ok()?,
                flags: bpf_probe_read_kernel(at(OFF_CB_TCP_FLAGS.load())).ok()?,
            })
        }
    }

    /// The beginning and the end of a connection have a number each.
    #[inline(always)]
    const fn has_data(&self) -> bool {
        let controls = (self.flags & FIN) + (self.flags & SYN) / SYN;
        self.end.wrapping_sub(self.first) > controls
    }

    /// Whether it can be read as soon as it is there: it is neither old nor ahead of one that is missing.
    #[inline(always)]
    const fn begins_or_covers(&self, next: u32) -> bool {
        !is_after(self.first, next) && is_after(self.end, next)
    }
}

/// In the order of sequence numbers, which wrap.
#[inline(always)]
#[expect(clippy::cast_possible_wrap, reason = "as the kernel's `before` and `after`")]
const fn is_after(number: u32, other: u32) -> bool {
    (other.wrapping_sub(number) as i32) < 0
}

#[inline(always)]
pub(crate) fn now() -> u64 {
    // SAFETY: the helper only reads a clock.
    unsafe { bpf_ktime_get_ns() }
}
