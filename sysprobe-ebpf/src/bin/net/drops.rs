//! Packets that the kernel drops, with its own reason, charged to the socket that they were for or came from.

use aya_ebpf::btf_maps::PerCpuArray;
use aya_ebpf::macros::btf_map;
use sysprobe_common::cgroup::KERNEL;
use sysprobe_ebpf::cgroup::{CFG_VIA_CONTROLLER, id_of};
use sysprobe_ebpf::kernel::Object;
use sysprobe_ebpf::settings;
use sysprobe_ebpf::socket::{is_inet, is_remainder};

use crate::booking::dropped;

settings!(
    /// `sock.sk_cgrp_data.cgroup`: the cgroup on the default hierarchy that made the socket.
    OFF_SK_CGROUP,
    OFF_SKB_PROTOCOL,
    /// The number of parameters of `kfree_skb`, with the kernel's own.
    CFG_DROP_PARAMETERS,
    /// Values of `enum skb_drop_reason`.
    VAL_DROP_MEMORY,
    VAL_DROP_QUEUE,
);

const ETH_P_IP: u16 = 0x0800_u16.to_be();
const ETH_P_IPV6: u16 = 0x86dd_u16.to_be();

/// Who owns the socket whose queue refused a datagram on this CPU: the kernel frees that next, and before 6.11 does not say then
/// whose it was.
#[btf_map]
static NET_REFUSED: PerCpuArray<u64, 1> = PerCpuArray::new();

/// Whether `kfree_skb` says which socket a packet was for (6.11).
#[inline(always)]
pub(crate) fn tells_receiver() -> bool {
    CFG_DROP_PARAMETERS.load() >= 5
}

/// Packets of IP only: what local sockets and netlink free is no packet.
#[inline(always)]
pub(crate) fn is_packet(packet: impl Object) -> bool {
    matches!(packet.u16(&OFF_SKB_PROTOCOL), Some(ETH_P_IP | ETH_P_IPV6))
}

/// A packet was dropped. `owner` is that of its socket, if it has one.
#[inline(always)]
pub(crate) fn of_packet(owner: Option<u64>, reason: u32) {
    let owner = owner.or_else(|| refused(reason)).unwrap_or(KERNEL);
    dropped(owner, reason);
}

/// The queue of this owner's socket refuses a datagram.
#[inline(always)]
pub(crate) fn refuse(owner: u64) {
    if let Some(refused) = NET_REFUSED.get_ptr_mut(0) {
        // SAFETY: a value of this CPU's.
        unsafe { *refused = owner };
    }
}

#[inline(always)]
fn refused(reason: u32) -> Option<u64> {
    if tells_receiver() || (reason != VAL_DROP_MEMORY.load() && reason != VAL_DROP_QUEUE.load()) {
        return None;
    }
    let refused = NET_REFUSED.get_ptr_mut(0)?;
    // SAFETY: a value of this CPU's.
    let owner = unsafe { refused.replace(0) };
    (owner != 0).then_some(owner)
}

/// Whose a socket is that nobody remembers: of the cgroup that made it, where the kernel keeps that (5.16) and the key is its id on the
/// default hierarchy; 0 if nobody knows.
#[inline(always)]
pub(crate) fn maker(socket: impl Object) -> u64 {
    if is_remainder(socket) {
        return KERNEL;
    }
    if CFG_VIA_CONTROLLER.load() != 0 || OFF_SK_CGROUP.load() == u32::MAX || !is_inet(socket) {
        return 0;
    }
    socket.follow(&OFF_SK_CGROUP).map_or(0, id_of)
}
