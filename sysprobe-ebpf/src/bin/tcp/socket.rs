//! What the kernel knows of a socket: its kind, its peer's family, its totals.

use aya_ebpf::helpers::generated::bpf_jiffies64;
use sysprobe_common::tcp::socket_flag::{ASKED, FINISHED};
use sysprobe_common::tcp::{Socket, Totals};
use sysprobe_common::traffic::Family;
use sysprobe_ebpf::kernel::{Object, read_u64};
use sysprobe_ebpf::settings;
pub(crate) use sysprobe_ebpf::socket::{is_remainder, state};

use crate::memory::{HAS_CENSUS, Sock};

settings!(
    OFF_SK_ERROR,
    OFF_SK_DROPS,
    OFF_SK_FLAGS,
    OFF_SK_LOCK_OWNED,
    OFF_SK_QUEUE,
    OFF_SK_QUEUE_LIMIT,
    /// What a connection that has something to send waits for: the lowest two of the bits from this one on.
    OFF_TCP_BUSY_WITH,
    BIT_TCP_BUSY_WITH,
    OFF_TCP_BUSY_SINCE,
    OFF_TCP_BUSY_TIMES,
    OFF_TCP_BYTES_ACKED,
    OFF_TCP_BYTES_RECEIVED,
    OFF_TCP_BYTES_RETRANSMITTED,
    OFF_TCP_BYTES_SENT,
    OFF_TCP_COPIED_SEQ,
    OFF_TCP_DEVIATION,
    OFF_TCP_NOW,
    OFF_TCP_OUT_OF_ORDER,
    OFF_TCP_RCV_NXT,
    OFF_TCP_RETRANSMITTED,
    OFF_TCP_SEGMENTS_IN,
    OFF_TCP_SEGMENTS_OUT,
    /// `tcp_sock.tsorted_sent_queue`: a list, which begins with the address of the first in it, or its own if
    /// it is empty.
    OFF_TCP_SENT_QUEUE,
    OFF_TCP_SND_UNA,
    OFF_TCP_SRTT,
    OFF_TCP_WRITE_SEQ,
);

/// Of `enum sock_flags` (include/net/sock.h); the same since 2.6.
const SOCK_DONE: u32 = 1;
/// Of `enum tcp_chrono` (include/linux/tcp.h), since 4.10.
const CHRONO_WINDOW: u32 = 2;

/// That of its peer; one that has none yet counts as its own.
#[inline(always)]
pub(crate) fn family(socket: Sock) -> Family {
    match sysprobe_ebpf::socket::family(socket) {
        Family::Either => Family::V6,
        family => family,
    }
}

/// Whether a task is at work on it, and not the softirq that receives.
#[inline(always)]
pub(crate) fn is_used_by_task(socket: Sock) -> bool {
    socket.load_u32(&OFF_SK_LOCK_OWNED) != 0
}

/// How many connections wait for a listening socket to accept them, and its limit.
#[inline(always)]
pub(crate) fn accept_queue(socket: impl Object) -> (u32, u32) {
    let number = |offset| socket.u32(offset).unwrap_or(0);
    (number(&OFF_SK_QUEUE), number(&OFF_SK_QUEUE_LIMIT))
}

/// Whether a listening socket has no room for one more connection: `sk_acceptq_is_full`.
#[inline(always)]
pub(crate) fn is_full(listening: Sock) -> bool {
    let (waiting, limit) = accept_queue(listening);
    waiting > limit
}

#[inline(always)]
pub(crate) fn error(socket: Sock) -> u32 {
    socket.load_u32(&OFF_SK_ERROR)
}

/// Whether the peer has acknowledged all there is to send, the end included.
#[inline(always)]
pub(crate) fn is_all_acknowledged(tcp: Sock) -> bool {
    tcp.load_u32(&OFF_TCP_SND_UNA) == tcp.load_u32(&OFF_TCP_WRITE_SEQ)
}

/// The address of the socket that listened, if this one has just been copied from it for a new connection: a
/// list of the copy's that is empty still points to where it is in the original. `sk_clone` copies the whole
/// socket, and `inet_csk_clone_lock` changes the state before `tcp_create_openreq_child` sets the list up
/// anew (all of 5.10 to 7.3).
#[inline(always)]
pub(crate) fn original(tcp: Sock) -> u64 {
    let list = read_u64(tcp.address(), &OFF_TCP_SENT_QUEUE).unwrap_or(0);
    list.wrapping_sub(u64::from(OFF_TCP_SENT_QUEUE.load()))
}

/// Up to which sequence number it was read. Each CPU that has a part in a connection has written to other
/// members of it: this one has just been written by the reader.
#[inline(always)]
pub(crate) fn read_up_to(tcp: Sock) -> u32 {
    tcp.load_u32(&OFF_TCP_COPIED_SEQ)
}

/// The sequence number behind the last byte that was received.
#[inline(always)]
pub(crate) fn received_up_to(tcp: Sock) -> u32 {
    tcp.load_u32(&OFF_TCP_RCV_NXT).wrapping_sub(u32::from(has_end(tcp)))
}

/// Whether its end (FIN) was received, which counts as a byte.
#[inline(always)]
fn has_end(tcp: Sock) -> bool {
    tcp.load_u64(&OFF_SK_FLAGS) >> SOCK_DONE & 1 != 0
}

/// What the kernel has counted so far. `segs_out` has what was sent again in it.
#[inline(always)]
pub(crate) fn totals(tcp: Sock, remembered: &Socket, is_listening: bool) -> Totals {
    let retransmitted = tcp.load_u32(&OFF_TCP_RETRANSMITTED);
    let first = tcp.load_u32(&OFF_TCP_SEGMENTS_OUT).wrapping_sub(retransmitted);
    Totals {
        received_bytes: tcp.load_u64(&OFF_TCP_BYTES_RECEIVED).saturating_sub(u64::from(has_end(tcp))),
        sent_bytes: delivered(tcp, remembered),
        received_segments: tcp.load_u32(&OFF_TCP_SEGMENTS_IN),
        sent_segments: first,
        retransmitted,
        out_of_order: tcp.load_u32(&OFF_TCP_OUT_OF_ORDER),
        dropped_or_limited: if is_listening { dropped(tcp) } else { window_limited(tcp) },
    }
}

/// What a listening socket dropped. Without a census it would be booked only when the socket ends.
#[inline(always)]
fn dropped(tcp: Sock) -> u32 {
    if HAS_CENSUS { tcp.load_u32(&OFF_SK_DROPS) } else { 0 }
}

/// How long the peer's window had no room for what there was to send, in jiffies: `tcp_chrono_start` and its
/// like.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "as `tcp_jiffies32`")]
fn window_limited(tcp: Sock) -> u32 {
    let ended = tcp.load_u32_of(&OFF_TCP_BUSY_TIMES, CHRONO_WINDOW as usize - 1);
    let now = u32::from(tcp.load_u8(&OFF_TCP_BUSY_WITH)) >> BIT_TCP_BUSY_WITH.load() & 3;
    if now != CHRONO_WINDOW {
        return ended;
    }
    // SAFETY: the helper only reads a clock.
    let jiffies = unsafe { bpf_jiffies64() } as u32;
    ended.wrapping_add(jiffies.wrapping_sub(tcp.load_u32(&OFF_TCP_BUSY_SINCE)))
}

/// What the peer has acknowledged, where SYN and FIN count as a byte each. That the FIN was acknowledged may
/// have gone unseen; but no more can be acknowledged than was sent. (`bytes_sent` alone will not do: what the
/// own queueing discipline refuses is in it twice.)
#[inline(always)]
fn delivered(tcp: Sock, remembered: &Socket) -> u64 {
    let controls = u64::from(remembered.has(ASKED)) + u64::from(remembered.has(FINISHED));
    let acknowledged = tcp.load_u64(&OFF_TCP_BYTES_ACKED).saturating_sub(controls);
    let sent = tcp.load_u64(&OFF_TCP_BYTES_SENT).saturating_sub(tcp.load_u64(&OFF_TCP_BYTES_RETRANSMITTED));
    if acknowledged < sent { acknowledged } else { sent }
}
