//! What the kernel knows of a socket: its kind, its peer's family, its totals.

use aya_ebpf::helpers::generated::bpf_skc_to_tcp_sock;
use sysprobe_common::tcp::{Family, Socket, Totals, state};
use sysprobe_ebpf::kernel::Typed;
use sysprobe_ebpf::settings;

settings!(
    OFF_SK_ERROR,
    OFF_SK_DROPS,
    OFF_SK_FAMILY,
    OFF_SK_FLAGS,
    OFF_SK_LOCK_OWNED,
    OFF_SK_PEER_V6,
    OFF_SK_PROTOCOL,
    OFF_SK_QUEUE,
    OFF_SK_QUEUE_LIMIT,
    OFF_SK_STATE,
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
const IPPROTO_TCP: u16 = 6;
const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;
/// The first three quarters of an address `::ffff:a.b.c.d`.
const MAPPED: [u32; 3] = [0, 0, u32::from_be(0x0000_ffff)];

/// Other families number their protocols otherwise: TCP's is one of netlink's, too.
#[inline(always)]
pub(crate) fn is_tcp(socket: Typed) -> bool {
    let family = socket.load_u16(&OFF_SK_FAMILY);
    (family == AF_INET || family == AF_INET6) && socket.load_u16(&OFF_SK_PROTOCOL) == IPPROTO_TCP
}

/// The same socket with the members of TCP, if it is one.
#[inline(always)]
pub(crate) fn tcp(socket: Typed) -> Option<Typed> {
    // SAFETY: the verifier checks the argument; what comes back is a typed pointer or null.
    let tcp = unsafe { bpf_skc_to_tcp_sock(socket.as_ptr().cast_mut().cast()) };
    // SAFETY: as above, and it is not null.
    if tcp.is_null() { None } else { Some(unsafe { Typed::new(tcp.cast_const().cast()) }) }
}

/// A socket of version 6 may speak version 4.
#[inline(always)]
pub(crate) fn family(socket: Typed) -> Family {
    if socket.load_u16(&OFF_SK_FAMILY) != AF_INET6 {
        return Family::V4;
    }
    let is_mapped = |at| socket.load_u32_of(&OFF_SK_PEER_V6, at) == MAPPED[at];
    if is_mapped(0) && is_mapped(1) && is_mapped(2) { Family::V4 } else { Family::V6 }
}

#[inline(always)]
pub(crate) fn state(socket: Typed) -> u32 {
    u32::from(socket.load_u8(&OFF_SK_STATE))
}

/// Whether it is only what the kernel keeps of a connection that is over, or not yet made.
#[inline(always)]
pub(crate) fn is_remainder(socket: Typed) -> bool {
    matches!(state(socket), state::TIME_WAIT | state::NEW_SYN_RECV)
}

/// Whether a task is at work on it, and not the softirq that receives.
#[inline(always)]
pub(crate) fn is_used_by_task(socket: Typed) -> bool {
    socket.load_u32(&OFF_SK_LOCK_OWNED) != 0
}

/// Of a listening socket.
#[inline(always)]
pub(crate) fn accept_queue(socket: Typed) -> (u32, u32) {
    (socket.load_u32(&OFF_SK_QUEUE), socket.load_u32(&OFF_SK_QUEUE_LIMIT))
}

#[inline(always)]
pub(crate) fn error(socket: Typed) -> u32 {
    socket.load_u32(&OFF_SK_ERROR)
}

/// Whether the peer has acknowledged all there is to send, the end included.
#[inline(always)]
pub(crate) fn is_all_acknowledged(tcp: Typed) -> bool {
    tcp.load_u32(&OFF_TCP_SND_UNA) == tcp.load_u32(&OFF_TCP_WRITE_SEQ)
}

/// How much of what it received was read.
#[inline(always)]
pub(crate) fn consumed(tcp: Typed) -> u64 {
    let unread = tcp.load_u32(&OFF_TCP_RCV_NXT).wrapping_sub(tcp.load_u32(&OFF_TCP_COPIED_SEQ));
    tcp.load_u64(&OFF_TCP_BYTES_RECEIVED).saturating_sub(u64::from(unread))
}

/// What the kernel has counted so far. `segs_out` has what was sent again in it.
#[inline(always)]
pub(crate) fn totals(tcp: Typed, remembered: &Socket, is_listening: bool) -> Totals {
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
        drops: if is_listening { u64::from(tcp.load_u32(&OFF_SK_DROPS)) } else { 0 },
    }
}

/// What the peer has acknowledged, where SYN and FIN count as a byte each. That the FIN was acknowledged may have gone unseen;
/// but no more can be acknowledged than was sent. (`bytes_sent` alone will not do: what the own queueing
/// discipline refuses is in it twice.)
#[inline(always)]
fn delivered(tcp: Typed, remembered: &Socket) -> u64 {
    let controls = u64::from(remembered.asked) + u64::from(remembered.finished);
    let acknowledged = tcp.load_u64(&OFF_TCP_BYTES_ACKED).saturating_sub(controls);
    let sent = tcp.load_u64(&OFF_TCP_BYTES_SENT).saturating_sub(tcp.load_u64(&OFF_TCP_BYTES_RETRANSMITTED));
    if acknowledged < sent { acknowledged } else { sent }
}
