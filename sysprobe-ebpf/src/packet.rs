//! Reads a packet: whether it is an IP packet, and which socket sent it.

use crate::globals;
use crate::kernel::{Address, Object};
use crate::socket::is_inet;

globals!(
    /// `sk_buff.data`, at a device the start of the network header.
    OFF_SKB_DATA,
    OFF_SKB_PROTOCOL,
    OFF_SKB_SK,
);

pub const ETH_P_IP: u16 = 0x0800_u16.to_be();
pub const ETH_P_IPV6: u16 = 0x86dd_u16.to_be();

/// Buffers of Unix and netlink sockets are not IP packets.
#[inline(always)]
#[must_use]
pub fn is_ip(packet: impl Object) -> bool {
    matches!(packet.u16(&OFF_SKB_PROTOCOL), Some(ETH_P_IP | ETH_P_IPV6))
}

#[inline(always)]
#[must_use]
pub fn is_version_4(packet: impl Object) -> bool {
    packet.u16(&OFF_SKB_PROTOCOL) == Some(ETH_P_IP)
}

/// The socket that sent a packet. In a fragment that waits for reassembly, kernels before 6.9 keep an offset
/// in place of the address (CVE-2024-26921). So a read that may fail checks the address before it is used as
/// a socket.
#[inline(always)]
#[must_use]
pub fn sender<T: Object>(packet: T) -> Option<T> {
    // The verifier requires a check for null before pointer arithmetic.
    let socket = packet.follow(&OFF_SKB_SK).filter(|socket| socket.address() != 0)?;
    is_inet(Address(socket.address())).then_some(socket)
}
