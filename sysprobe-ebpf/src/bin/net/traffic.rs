//! Traffic through sockets, counted call by call, because the kernel keeps no totals of datagrams.

use sysprobe_common::net::Protocol;
use sysprobe_common::traffic::Traffic;
use sysprobe_ebpf::atomic::add_u64;
use sysprobe_ebpf::globals;
use sysprobe_ebpf::kernel::{ABSENT, Object, read_u32};
use sysprobe_ebpf::socket::{
    IPPROTO_MPTCP, IPPROTO_TCP, IPPROTO_UDP, NOT_TAKEN, family, is_datagram, is_inet, is_stream, protocol,
};

use crate::accounting::traffic_of;

globals!(
    /// `udp_sock.pending`.
    OFF_UDP_PENDING
);

/// Part of the ABI.
const IPPROTO_ICMP: u16 = 1;
const IPPROTO_ICMPV6: u16 = 58;

/// `None` for TCP and for other address families. Raw sockets may carry any protocol, with its headers.
#[inline(always)]
pub(crate) fn kind(socket: impl Object) -> Option<Protocol> {
    if !is_inet(socket) {
        return None;
    }
    match protocol(socket) {
        IPPROTO_TCP if is_stream(socket) => None,
        // Its data goes through the kernel's own TCP sockets (subflows), which have totals.
        IPPROTO_MPTCP => None,
        IPPROTO_UDP if is_datagram(socket) => Some(Protocol::Udp),
        IPPROTO_ICMP | IPPROTO_ICMPV6 => Some(Protocol::Icmp),
        _ => Some(Protocol::Other),
    }
}

/// A send call has returned the number of bytes, or an error.
#[inline(always)]
pub(crate) fn sent<S: Object>(socket: S, owner: impl FnOnce(S) -> u64, result: i32) {
    let (Ok(bytes), Some(protocol)) = (u64::try_from(result), kind(socket)) else { return };
    let packets = u64::from(protocol != Protocol::Udp || !is_corked(socket));
    book(socket, owner, protocol, |traffic| {
        add_u64(&mut traffic.sent_bytes, bytes);
        add_u64(&mut traffic.sent_packets, packets);
    });
}

/// A receive call has returned the number of bytes, or an error.
#[inline(always)]
pub(crate) fn received<S: Object>(socket: S, owner: impl FnOnce(S) -> u64, result: i32, flags: u32) {
    let (Ok(bytes), Some(protocol)) = (u64::try_from(result), kind(socket)) else { return };
    if flags & NOT_TAKEN != 0 {
        return;
    }
    book(socket, owner, protocol, |traffic| {
        add_u64(&mut traffic.received_bytes, bytes);
        add_u64(&mut traffic.received_packets, 1);
    });
}

#[inline(always)]
fn book<S: Object>(
    socket: S,
    owner: impl FnOnce(S) -> u64,
    protocol: Protocol,
    add: impl FnOnce(&mut Traffic),
) {
    if let Some(traffic) = traffic_of(owner(socket), protocol, family(socket)) {
        add(traffic);
    }
}

/// Whether the sent data waits for more, because of `MSG_MORE` or `UDP_CORK`.
#[inline(always)]
fn is_corked(socket: impl Object) -> bool {
    if OFF_UDP_PENDING.load() == ABSENT {
        return false;
    }
    let pending = match socket.cast_udp() {
        Some(udp) => udp.load_u32(&OFF_UDP_PENDING),
        None => read_u32(socket.address(), &OFF_UDP_PENDING).unwrap_or(0),
    };
    pending != 0
}
