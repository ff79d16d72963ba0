//! What the kernel knows of a socket: its kind, its peer's family, its totals.

use aya_ebpf::helpers::generated::bpf_jiffies64;
use sysprobe_common::tcp::{Socket, Totals};
use sysprobe_common::traffic::Family;
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

/// Of a listening socket.
#[inline(always)]
pub(crate) fn accept_queue(socket: Sock) -> (u32, u32) {
    (socket.load_u32(&OFF_SK_QUEUE), socket.load_u32(&OFF_SK_QUEUE_LIMIT))
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

/// How much of what it received was read.
#[inline(always)]
pub(crate) fn consumed(tcp: Sock) -> u64 {
    let unread = tcp.load_u32(&OFF_TCP_RCV_NXT).wrapping_sub(tcp.load_u32(&OFF_TCP_COPIED_SEQ));
    tcp.load_u64(&OFF_TCP_BYTES_RECEIVED).saturating_sub(u64::from(unread))
}

/// What the kernel has counted so far. `segs_out` has what was sent again in it.
#[inline(always)]
pub(crate) fn totals(tcp: Sock, remembered: &Socket, is_listening: bool) -> Totals {
    let retransmitted = tcp.load_u32(&OFF_TCP_RETRANSMITTED);
    let first = tcp.load_u32(&OFF_TCP_SEGMENTS_OUT).wrapping_sub(retransmitted);
    // The end (FIN) counts as a byte; `SOCK_DONE` says that it was received.
    let end = tcp.load_u64(&OFF_SK_FLAGS) >> SOCK_DONE & 1;
    Totals {
        received_bytes: tcp.load_u64(&OFF_TCP_BYTES_RECEIVED).saturating_sub(end),
        received_segments: u64::from(tcp.load_u32(&OFF_TCP_SEGMENTS_IN)),
        sent_bytes: delivered(tcp, remembered),
        sent_segments: u64::from(first),
        retransmitted: u64::from(retransmitted),
        out_of_order: u64::from(tcp.load_u32(&OFF_TCP_OUT_OF_ORDER)),
        window_limited: u64::from(window_limited(tcp)),
        drops: if is_listening && HAS_CENSUS { u64::from(tcp.load_u32(&OFF_SK_DROPS)) } else { 0 },
    }
}

/// How long the peer's window had no room for what there was to send, in jiffies: `tcp_chrono_start` and its like.
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

/// What the peer has acknowledged, where SYN and FIN count as a byte each. That the FIN was acknowledged may have gone unseen;
/// but no more can be acknowledged than was sent. (`bytes_sent` alone will not do: what the own queueing
/// discipline refuses is in it twice.)
#[inline(always)]
fn delivered(tcp: Sock, remembered: &Socket) -> u64 {
    let controls = u64::from(remembered.asked) + u64::from(remembered.finished);
    let acknowledged = tcp.load_u64(&OFF_TCP_BYTES_ACKED).saturating_sub(controls);
    let sent = tcp.load_u64(&OFF_TCP_BYTES_SENT).saturating_sub(tcp.load_u64(&OFF_TCP_BYTES_RETRANSMITTED));
    if acknowledged < sent { acknowledged } else { sent }
}
