//! Packets that the kernel drops, by its drop reason, charged to the owner of the receiving or sending
//! socket.

use aya_ebpf::btf_maps::PerCpuArray;
use aya_ebpf::macros::btf_map;
use sysprobe_common::cgroup::KERNEL;
use sysprobe_ebpf::globals;

use crate::accounting::dropped;

globals!(
    /// The number of parameters of `kfree_skb`, including the one that programs do not see.
    CFG_DROP_PARAMETERS,
    /// Values of `enum skb_drop_reason`.
    VAL_DROP_MEMORY,
    VAL_DROP_QUEUE,
);

/// The reason of this CPU's last drop for lack of room in a socket, until it is charged to an owner; 0 for
/// none. Before 6.11 only `udp_fail_queue_rcv_skb`, which runs next, has the socket.
#[btf_map]
static NET_REFUSED: PerCpuArray<u32, 1> = PerCpuArray::new();

/// Whether `kfree_skb` says which socket a packet was for (6.11).
#[inline(always)]
pub(crate) fn tells_receiver() -> bool {
    CFG_DROP_PARAMETERS.load() >= 5
}

/// A packet was dropped. `owner` is that of its socket, if it has one.
#[inline(always)]
pub(crate) fn of_packet(owner: Option<u64>, reason: u32) {
    match owner {
        Some(owner) => dropped(owner, reason),
        None if is_refusal(reason) => wait_for_owner(reason),
        None => dropped(KERNEL, reason),
    }
}

#[inline(always)]
fn is_refusal(reason: u32) -> bool {
    !tells_receiver() && (reason == VAL_DROP_MEMORY.load() || reason == VAL_DROP_QUEUE.load())
}

/// Keeps the reason until the owner is known. One that still waits belongs to a drop of another protocol,
/// which is charged to the kernel.
#[inline(always)]
fn wait_for_owner(reason: u32) {
    let before = replace_refused(reason);
    if before != 0 {
        dropped(KERNEL, before);
    }
}

/// A socket of this owner had no room for the datagram.
#[inline(always)]
pub(crate) fn refused(owner: u64) {
    let reason = replace_refused(0);
    if reason != 0 {
        dropped(owner, reason);
    }
}

#[inline(always)]
fn replace_refused(reason: u32) -> u32 {
    // SAFETY: the value belongs to this CPU.
    NET_REFUSED.get_ptr_mut(0).map_or(0, |refused| unsafe { refused.replace(reason) })
}
