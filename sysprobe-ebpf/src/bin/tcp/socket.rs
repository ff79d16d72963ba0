//! Reads a TCP socket: its peer's family, its queues, its totals.

use aya_ebpf::helpers::generated::bpf_jiffies64;
use sysprobe_common::tcp::socket_flag::{ASKED, FIN_SENT};
use sysprobe_common::tcp::{Socket, Totals, state};
use sysprobe_common::traffic::Family;
use sysprobe_ebpf::globals;
use sysprobe_ebpf::kernel::{Object, read_u64};
pub(crate) use sysprobe_ebpf::socket::{is_remainder, state};

use crate::{HAS_SCAN, Sock};

globals!(
    OFF_SK_ERROR,
    OFF_SK_DROPS,
    OFF_SK_FLAGS,
    OFF_SK_LOCK_OWNED,
    OFF_SK_QUEUE,
    OFF_SK_QUEUE_LIMIT,
    /// `tcp_sock.chrono_type`: what limits a connection with data to send, in two bits from this one on.
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
    /// `tcp_sock.tsorted_sent_queue`: a list head, which points to its first element, or to itself if the
    /// list is empty.
    OFF_TCP_SENT_QUEUE,
    OFF_TCP_SND_UNA,
    OFF_TCP_SRTT,
    OFF_TCP_WRITE_SEQ,
);

/// A bit number of `enum sock_flags` (include/net/sock.h); the same since 2.6.
const SOCK_DONE: u32 = 1;
/// A value of `enum tcp_chrono` (include/linux/tcp.h), since 4.10.
const CHRONO_WINDOW: u32 = 2;

/// The family of the peer, or the socket's own if it has no peer yet.
#[inline(always)]
pub(crate) fn family(socket: Sock) -> Family {
    match sysprobe_ebpf::socket::family(socket) {
        Family::Either => Family::V6,
        family => family,
    }
}

/// Whether a task holds the socket, and not the softirq that receives.
#[inline(always)]
pub(crate) fn is_used_by_task(socket: Sock) -> bool {
    socket.load_u32(&OFF_SK_LOCK_OWNED) != 0
}

/// The number of connections in a listening socket's accept queue, and the queue's limit.
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

/// Whether a socket comes into this state only after it has sent its FIN.
#[inline(always)]
pub(crate) const fn is_after_fin(state: u32) -> bool {
    matches!(state, state::FIN_WAIT1 | state::FIN_WAIT2 | state::CLOSING | state::LAST_ACK)
}

/// Whether the FIN was sent. `CLOSE` follows on a FIN or on a reset, so the state alone does not tell.
#[inline(always)]
pub(crate) fn has_sent_fin(tcp: Sock, remembered: &Socket) -> bool {
    is_after_fin(state(tcp)) || remembered.has(FIN_SENT)
}

/// Whether the peer has acknowledged the FIN, and so all data before it.
#[inline(always)]
fn is_fin_acknowledged(tcp: Sock, remembered: &Socket) -> bool {
    has_sent_fin(tcp, remembered) && tcp.load_u32(&OFF_TCP_SND_UNA) == tcp.load_u32(&OFF_TCP_WRITE_SEQ)
}

/// The address of the listening socket, if this one has just been copied from it for a new connection. An
/// empty list in the copy still points into the original: `sk_clone` copies the whole socket, and
/// `inet_csk_clone_lock` changes the state before `tcp_create_openreq_child` initialises the list (all of
/// 5.10 to 7.3).
#[inline(always)]
pub(crate) fn original(tcp: Sock) -> u64 {
    let list = read_u64(tcp.address(), &OFF_TCP_SENT_QUEUE).unwrap_or(0);
    list.wrapping_sub(u64::from(OFF_TCP_SENT_QUEUE.load()))
}

/// The sequence number up to which the socket was read. This member is in the CPU's cache, because the reader
/// has just written it; others may be in the caches of other CPUs.
#[inline(always)]
pub(crate) fn read_up_to(tcp: Sock) -> u32 {
    tcp.load_u32(&OFF_TCP_COPIED_SEQ)
}

/// The sequence number after the last received byte of data.
#[inline(always)]
pub(crate) fn received_up_to(tcp: Sock) -> u32 {
    tcp.load_u32(&OFF_TCP_RCV_NXT).wrapping_sub(u32::from(has_end(tcp)))
}

/// Whether the peer's FIN was received, which counts as a byte.
#[inline(always)]
fn has_end(tcp: Sock) -> bool {
    tcp.load_u64(&OFF_SK_FLAGS) >> SOCK_DONE & 1 != 0
}

/// The kernel's totals so far of a socket that is locked.
#[inline(always)]
pub(crate) fn totals(tcp: Sock, remembered: &Socket, is_listening: bool) -> Totals {
    totals_with(tcp, remembered, is_listening, || is_fin_acknowledged(tcp, remembered))
}

/// The same for any socket. `has_fin` returns whether `bytes_acked` may include the FIN, and is called after
/// that was read. `segs_out` includes retransmissions.
#[inline(always)]
pub(crate) fn totals_with(
    tcp: Sock,
    remembered: &Socket,
    is_listening: bool,
    has_fin: impl FnOnce() -> bool,
) -> Totals {
    let retransmitted = tcp.load_u32(&OFF_TCP_RETRANSMITTED);
    let first = tcp.load_u32(&OFF_TCP_SEGMENTS_OUT).wrapping_sub(retransmitted);
    Totals {
        received_bytes: tcp.load_u64(&OFF_TCP_BYTES_RECEIVED).saturating_sub(u64::from(has_end(tcp))),
        sent_bytes: delivered(tcp, remembered, has_fin),
        received_segments: tcp.load_u32(&OFF_TCP_SEGMENTS_IN),
        sent_segments: first,
        retransmitted,
        out_of_order: tcp.load_u32(&OFF_TCP_OUT_OF_ORDER),
        dropped_or_limited: if is_listening { dropped(tcp) } else { window_limited(tcp) },
    }
}

/// The drops of a listening socket. Without a scan they would be counted only when the socket ends.
#[inline(always)]
fn dropped(tcp: Sock) -> u32 {
    if HAS_SCAN { tcp.load_u32(&OFF_SK_DROPS) } else { 0 }
}

/// How long the peer's window has been too small for the data to send, in jiffies: `tcp_chrono_start` and its
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

/// Of `tcp_sock.bytes_acked`, what is not a SYN or a FIN, which count as a byte each. (`bytes_sent` alone is
/// not enough: it counts anew the data that the node's own queueing discipline has refused.)
#[inline(always)]
fn delivered(tcp: Sock, remembered: &Socket, has_fin: impl FnOnce() -> bool) -> u64 {
    let acknowledged = tcp.load_u64(&OFF_TCP_BYTES_ACKED);
    let acknowledged = acknowledged.saturating_sub(u64::from(remembered.has(ASKED)) + u64::from(has_fin()));
    let sent = tcp.load_u64(&OFF_TCP_BYTES_SENT).saturating_sub(tcp.load_u64(&OFF_TCP_BYTES_RETRANSMITTED));
    if acknowledged < sent { acknowledged } else { sent }
}
