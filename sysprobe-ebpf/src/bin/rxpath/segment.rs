//! TCP: follows the first unread segment, by sequence numbers.

use sysprobe_common::rxpath::{Point, Protocol, Unread};
use sysprobe_ebpf::clock::now;
use sysprobe_ebpf::globals;
use sysprobe_ebpf::kernel::{Address, Object};
use sysprobe_ebpf::volatile::{load, store};

use crate::accounting::points_of;
use crate::datagram::OFF_SK_RECEIVED_COUNT;
use crate::losses::lose;
use crate::memory::{Sock, known, tcp};
use crate::name::Name;
use crate::receive_path::{self, Readable, begin, end};
use crate::{arrival, name, share};

globals!(
    OFF_SK_LOCK_OWNED,
    OFF_SK_RECEIVED_FIRST,
    OFF_SKB_CB,
    OFF_CB_SEQ,
    OFF_CB_END_SEQ,
    OFF_CB_TCP_FLAGS,
    OFF_TCP_COPIED_SEQ,
    OFF_TCP_RCV_NXT,
);

/// No sequence number.
const NOTHING_LEFT: u64 = u64::MAX;

const FIN: u32 = 1;
const SYN: u32 = 2;

/// An established connection receives a segment.
#[inline(always)]
pub(crate) fn arrived(socket: Sock, packet: impl Object) {
    let Some(segment) = Segment::of(packet).filter(Segment::has_data) else { return };
    let remembered = known(socket);
    if remembered.as_ref().is_some_and(|unread| unread.waits != 0 && unread.is_ready()) {
        return;
    }
    let Some(tcp) = tcp(socket) else { return };
    let next = tcp.load_u32(&OFF_TCP_RCV_NXT);
    // A followed segment that was not accepted, for lack of room, is retransmitted: then it is recorded
    // again.
    if remembered.as_ref().is_some_and(|unread| unread.waits != 0 && is_after(next, position(unread))) {
        return;
    }
    if segment.begins_or_covers(next) {
        let name = (name::of_segment(segment.first), Protocol::Tcp);
        receive_path::begin_or_lose(socket, remembered, name, u64::from(next), Readable::Later);
    }
}

/// The reader is about to be notified. Where earlier hooks do not see segments, following begins here: the
/// unread data begins with a segment whose arrival at a device is recorded, if it is followed.
#[inline(always)]
pub(crate) fn became_ready(socket: Sock) {
    if points_of(Protocol::Tcp as u32) & u64::from(Point::Transport.bit()) == 0 {
        begin_unread(socket);
    } else {
        go_on(socket);
    }
}

#[inline(always)]
fn begin_unread(socket: Sock) {
    let Some(tcp) = tcp(socket) else { return };
    let first = tcp.load_u32(&OFF_TCP_COPIED_SEQ);
    let name = name::of_segment(first);
    if !arrival::is_noted(name) {
        if share::follows_all() && is_first_of_segment(socket, first) {
            lose_once(known(socket), first, name);
        }
        return;
    }
    if is_after(tcp.load_u32(&OFF_TCP_RCV_NXT), first) {
        begin_first(socket, known(socket), first, name);
    }
}

/// Begins to follow the first unread data. Data that the last read left has been readable since it came, not
/// since the segment behind it that the reader is now notified of.
#[inline(always)]
fn begin_first(socket: Sock, remembered: Option<&mut Unread>, first: u32, name: Name) {
    let readable = match &remembered {
        Some(unread) if !is_at(unread, first) => Readable::Now,
        Some(unread) if unread.waits == 0 => Readable::SinceArrival,
        Some(_) => return,
        None => Readable::Now,
    };
    begin(socket, remembered, name, u64::from(first), readable);
}

/// Whether the record is that of data at this number: followed, or left by the last read.
#[inline(always)]
fn is_at(unread: &Unread, first: u32) -> bool {
    unread.position == u64::from(first)
}

/// Counts unread data that is not followed, once: each segment that arrives behind it comes here.
#[inline(always)]
fn lose_once(remembered: Option<&mut Unread>, first: u32, name: Name) {
    if let Some(unread) = remembered {
        if is_at(unread, first) {
            return;
        }
        if unread.waits == 0 {
            store(&mut unread.position, u64::from(first));
        }
    }
    lose(arrival::loss(name, Protocol::Tcp, now()));
}

/// Whether an unread segment begins at this number. None does if a segment was read in part.
#[inline(always)]
fn is_first_of_segment(socket: Sock, number: u32) -> bool {
    let socket = Address(socket.address());
    if socket.load_u32(&OFF_SK_RECEIVED_COUNT) == 0 {
        return false;
    }
    let first = socket.follow(&OFF_SK_RECEIVED_FIRST);
    first.and_then(Segment::of).is_some_and(|segment| segment.first == number && segment.has_data())
}

/// The followed segment becomes readable.
#[inline(always)]
fn go_on(socket: Sock) {
    match known(socket) {
        Some(unread) if unread.waits != 0 => {
            let is_news = !unread.is_ready();
            if is_news
                && tcp(socket).is_some_and(|tcp| is_after(tcp.load_u32(&OFF_TCP_RCV_NXT), position(unread)))
            {
                receive_path::became_ready(unread);
            }
        }
        remembered => came_by_another_way(socket, remembered),
    }
}

/// Begins to follow data that did not pass `tcp_rcv_established`: data on the segment that completes the
/// handshake (the client delayed its acknowledgement, or the next segment overtook it on another CPU), and on
/// a half-closed connection. Data that no device recorded is neither, so it is not counted as lost.
#[inline(always)]
fn came_by_another_way(socket: Sock, remembered: Option<&mut Unread>) {
    let Some(tcp) = tcp(socket) else { return };
    let first = tcp.load_u32(&OFF_TCP_COPIED_SEQ);
    if is_after(tcp.load_u32(&OFF_TCP_RCV_NXT), first) {
        begin_first(socket, remembered, first, name::of_segment(first));
    }
}

/// Data was copied to a reader.
#[inline(always)]
pub(crate) fn read(socket: Sock) {
    let Some(unread) = known(socket) else { return };
    let Some(tcp) = tcp(socket) else { return };
    let copied = tcp.load_u32(&OFF_TCP_COPIED_SEQ);
    if unread.waits != 0 {
        // Some of the kernel's own readers run in a softirq, on top of an unrelated task.
        let is_task = socket.load_u32(&OFF_SK_LOCK_OWNED) != 0;
        if !is_task || !is_after(copied, position(unread)) {
            return;
        }
        end(socket, unread, Protocol::Tcp);
    }
    let is_all = tcp.load_u32(&OFF_TCP_RCV_NXT) == copied;
    let left = if is_all { NOTHING_LEFT } else { u64::from(copied) };
    if load(&unread.position) != left {
        store(&mut unread.position, left);
    }
}

/// The sequence number of the first byte.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "as it was stored")]
const fn position(unread: &Unread) -> u32 {
    unread.position as u32
}

/// A segment, by sequence numbers.
struct Segment {
    first: u32,
    end: u32,
    flags: u32,
}

impl Segment {
    /// Reads TCP's data in the packet (`tcp_skb_cb`).
    #[inline(always)]
    fn of(packet: impl Object) -> Option<Self> {
        Some(Self {
            first: packet.u32_within(&OFF_SKB_CB, &OFF_CB_SEQ)?,
            end: packet.u32_within(&OFF_SKB_CB, &OFF_CB_END_SEQ)?,
            flags: packet.u8_within(&OFF_SKB_CB, &OFF_CB_TCP_FLAGS)?.into(),
        })
    }

    /// SYN and FIN have a sequence number each.
    #[inline(always)]
    fn has_data(&self) -> bool {
        let controls = (self.flags & FIN) + (self.flags & SYN) / SYN;
        self.end.wrapping_sub(self.first) > controls
    }

    /// Whether the segment is readable at once: it is neither old nor after a missing one.
    #[inline(always)]
    const fn begins_or_covers(&self, next: u32) -> bool {
        !is_after(self.first, next) && is_after(self.end, next)
    }
}

/// Whether a sequence number is after another one. They wrap.
#[inline(always)]
#[expect(clippy::cast_possible_wrap, reason = "as the kernel's `before` and `after`")]
const fn is_after(number: u32, other: u32) -> bool {
    (other.wrapping_sub(number) as i32) < 0
}
