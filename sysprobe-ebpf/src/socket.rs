//! Reads any socket: its type, its protocol, its family, its state.

use aya_ebpf::Global;
use aya_ebpf::helpers::generated::bpf_skc_to_tcp_sock;
use sysprobe_common::cgroup::KERNEL;
use sysprobe_common::tcp::state;
use sysprobe_common::traffic::Family;

use crate::cgroup::{CFG_VIA_CONTROLLER, id_of};
use crate::globals;
use crate::kernel::{ABSENT, Address, Object, Typed};

globals!(
    /// `sock.sk_cgrp_data.cgroup`: the cgroup on the default hierarchy that created the socket.
    OFF_SK_CGROUP,
    OFF_SK_FAMILY,
    /// A byte with flags, and its bit for sockets that use IPv6 only.
    OFF_SK_IPV6ONLY,
    BIT_SK_IPV6ONLY,
    OFF_SK_OWN_V6,
    OFF_SK_PEER_V6,
    OFF_SK_PROTOCOL,
    OFF_SK_STATE,
    OFF_SK_TYPE,
    OFF_SOCKET_SK,
);

/// `enum sock_type` of include/linux/net.h, except on MIPS.
const SOCK_STREAM: u16 = 1;
const SOCK_DGRAM: u16 = 2;
/// Part of the ABI.
pub const IPPROTO_TCP: u16 = 6;
pub const IPPROTO_UDP: u16 = 17;
pub const IPPROTO_MPTCP: u16 = 262;
/// `MSG_PEEK | MSG_ERRQUEUE`: the flags of a receive call that leaves the data in the socket, or reads the
/// error queue.
pub const NOT_TAKEN: u32 = 0x2 | 0x2000;
const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;
/// The third 32-bit word of an IPv4-mapped address (`::ffff:a.b.c.d`), after eight bytes of zero.
pub const MAPPED: u32 = u32::from_be(0x0000_ffff);

#[inline(always)]
#[must_use]
pub fn is_inet(socket: impl Object) -> bool {
    matches!(socket.u16(&OFF_SK_FAMILY), Some(AF_INET | AF_INET6))
}

#[inline(always)]
#[must_use]
pub fn protocol(socket: impl Object) -> u16 {
    socket.u16(&OFF_SK_PROTOCOL).unwrap_or(0)
}

/// Family and type are checked as well: other families number their protocols differently, and raw sockets
/// may use any protocol.
#[inline(always)]
#[must_use]
pub fn is_tcp(socket: impl Object) -> bool {
    is_inet(socket) && protocol(socket) == IPPROTO_TCP && is_stream(socket)
}

/// The same for MPTCP: the socket that a process has open. The TCP sockets below it are the kernel's.
#[inline(always)]
#[must_use]
pub fn is_multipath(socket: impl Object) -> bool {
    is_inet(socket) && protocol(socket) == IPPROTO_MPTCP && is_stream(socket)
}

/// The same for UDP.
#[inline(always)]
#[must_use]
pub fn is_udp(socket: impl Object) -> bool {
    is_inet(socket) && protocol(socket) == IPPROTO_UDP && is_datagram(socket)
}

#[inline(always)]
#[must_use]
pub fn is_stream(socket: impl Object) -> bool {
    socket.u16(&OFF_SK_TYPE) == Some(SOCK_STREAM)
}

#[inline(always)]
#[must_use]
pub fn is_datagram(socket: impl Object) -> bool {
    socket.u16(&OFF_SK_TYPE) == Some(SOCK_DGRAM)
}

/// Whether the socket has IPv6 addresses.
#[inline(always)]
#[must_use]
pub fn is_version_6(socket: impl Object) -> bool {
    socket.u16(&OFF_SK_FAMILY) == Some(AF_INET6)
}

/// The IP version in use. An IPv6 socket may use IPv4, which shows in the peer's address, or else in its own.
#[inline(always)]
#[must_use]
pub fn family(socket: impl Object) -> Family {
    if !is_version_6(socket) {
        return Family::V4;
    }
    match of_address(socket, &OFF_SK_PEER_V6) {
        Family::Either => unconnected(socket),
        family => family,
    }
}

#[inline(always)]
fn unconnected(socket: impl Object) -> Family {
    let flags = socket.u8(&OFF_SK_IPV6ONLY).unwrap_or(0);
    if u32::from(flags) >> BIT_SK_IPV6ONLY.load() & 1 != 0 {
        return Family::V6;
    }
    of_address(socket, &OFF_SK_OWN_V6)
}

/// The IP version of an address. The zero address may be of either.
#[inline(always)]
fn of_address(socket: impl Object, offset: &Global<u32>) -> Family {
    let quarter = |at| socket.u32_of(offset, at);
    match (quarter(0) | quarter(1), quarter(2)) {
        (0, MAPPED) => Family::V4,
        (0, 0) if quarter(3) == 0 => Family::Either,
        _ => Family::V6,
    }
}

#[inline(always)]
#[must_use]
pub fn state(socket: impl Object) -> u32 {
    socket.u8(&OFF_SK_STATE).map_or(0, u32::from)
}

/// Whether the socket is only the kernel's reduced form (minisocket) of a TCP connection that is over or not
/// yet established.
#[inline(always)]
#[must_use]
pub fn is_remainder(socket: impl Object) -> bool {
    matches!(state(socket), state::TIME_WAIT | state::NEW_SYN_RECV)
}

/// The socket as a `tcp_sock`, if it is one.
#[inline(always)]
#[must_use]
pub fn tcp(socket: Typed) -> Option<Typed> {
    // SAFETY: the verifier checks the argument; the result is a typed pointer or null.
    let tcp = unsafe { bpf_skc_to_tcp_sock(socket.as_ptr().cast_mut().cast()) };
    // SAFETY: as above, and it is not null.
    if tcp.is_null() { None } else { Some(unsafe { Typed::new(tcp.cast_const().cast()) }) }
}

/// The same for programs without types.
#[inline(always)]
#[must_use]
pub fn tcp_by_address(socket: Address) -> Option<Address> {
    Some(socket).filter(|socket| is_tcp(*socket) && !is_remainder(*socket))
}

/// The `struct sock` of a `struct socket`, to which a file leads.
#[inline(always)]
#[must_use]
pub fn of_file<T: Object>(socket: T) -> Option<T> {
    socket.follow(&OFF_SOCKET_SK).filter(|socket| socket.address() != 0)
}

/// The owner of a socket without a record: the cgroup that created it, if the kernel keeps that (5.15) and
/// the key hierarchy is the default one; 0 if the owner is not known.
#[inline(always)]
#[must_use]
pub fn maker(socket: impl Object) -> u64 {
    if is_remainder(socket) {
        return KERNEL;
    }
    if CFG_VIA_CONTROLLER.load() != 0 || OFF_SK_CGROUP.load() == ABSENT || !is_inet(socket) {
        return 0;
    }
    socket.follow(&OFF_SK_CGROUP).map_or(0, id_of)
}
