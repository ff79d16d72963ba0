//! What the kernel knows of a packet: whether it is one of IP, and which socket it came from.

use crate::kernel::{Address, Object};
use crate::settings;
use crate::socket::is_inet;

settings!(
    /// Where the header of the network layer is, at a device.
    OFF_SKB_DATA,
    OFF_SKB_PROTOCOL,
    OFF_SKB_SK,
);

const ETH_P_IP: u16 = 0x0800_u16.to_be();
const ETH_P_IPV6: u16 = 0x86dd_u16.to_be();

/// What local sockets and netlink pass on is no packet.
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

/// The socket that a packet came from. Of a fragment that waits to be put together, kernels before 6.9 keep a
/// number in the place of the address (CVE-2024-26921). So a read that may fail looks at what is there before
/// it is taken for a socket.
#[inline(always)]
#[must_use]
pub fn sender<T: Object>(packet: T) -> Option<T> {
    // The verifier wants to see that it is not null before anything is added to it.
    let socket = packet.follow(&OFF_SKB_SK).filter(|socket| socket.address() != 0)?;
    is_inet(Address(socket.address())).then_some(socket)
}
