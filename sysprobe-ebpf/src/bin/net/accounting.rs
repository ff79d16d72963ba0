//! Adds traffic and drops to the slots of the sockets' owners.

use aya_ebpf::bindings::BPF_F_MMAPABLE;
use aya_ebpf::btf_maps::Array;
use aya_ebpf::macros::btf_map;
use sysprobe_common::net::{DropKey, DropStats, NetLoss, NetStats, Protocol};
use sysprobe_common::slot;
use sysprobe_common::traffic::{Family, Traffic};
use sysprobe_ebpf::atomic::add_u64;
use sysprobe_ebpf::counter::{self, Lanes};
use sysprobe_ebpf::slots::{self, Free, Known, Missing, Room};

/// By slot. Sized by the agent.
#[btf_map]
static NET_STATS: Array<NetStats, 1, { BPF_F_MMAPABLE as usize }> = Array::new();
#[btf_map]
static NET_SLOTS: Known = Known::new();
#[btf_map]
static NET_FREE: Free = Free::new();
#[btf_map]
static NET_ROOM: Room = Room::new();
/// The same for drops.
#[btf_map]
static NET_DROPS: Array<DropStats, 1, { BPF_F_MMAPABLE as usize }> = Array::new();
#[btf_map]
static NET_DROP_SLOTS: Known<DropKey> = Known::new();
#[btf_map]
static NET_DROP_FREE: Free = Free::new();
#[btf_map]
static NET_DROP_ROOM: Room = Room::new();
#[btf_map]
static NET_LOSSES: Lanes = Lanes::new();

/// The counters of an owner's traffic of one kind.
#[inline(always)]
pub(crate) fn traffic_of(owner: u64, protocol: Protocol, family: Family) -> Option<&'static mut Traffic> {
    let slot = slots::of_owner(&NET_SLOTS, (&NET_FREE, &NET_ROOM), owner, missing);
    let stats = NET_STATS.get_ptr_mut(slot)?;
    // SAFETY: the pointer is into the map's memory and stays valid while the program runs. All additions are
    // atomic.
    let stats = unsafe { &mut *stats };
    stats.traffic.get_mut(protocol as usize)?.get_mut(family as usize)
}

/// A packet of this owner was dropped.
#[inline(always)]
pub(crate) fn dropped(owner: u64, reason: u32) {
    let key = DropKey { cgroup: owner, reason, pad: 0 };
    let slot = slots::find_key(&NET_DROP_SLOTS, (&NET_DROP_FREE, &NET_DROP_ROOM), key, missing);
    let Some(stats) = NET_DROPS.get_ptr_mut(slot) else { return };
    // SAFETY: as in `traffic_of`.
    let stats = unsafe { &mut *stats };
    if !slot::is_nameless(slot) {
        stats.reason = reason;
    }
    add_u64(&mut stats.packets, 1);
}

#[inline(always)]
fn missing(why: Missing) {
    lose(match why {
        Missing::UnreadableCgroup => NetLoss::UnreadableCgroup,
        Missing::NoFreeSlot => NetLoss::NoFreeSlot,
    });
}

#[cold]
#[inline(never)]
pub(crate) fn lose(loss: NetLoss) {
    counter::count(&NET_LOSSES, loss as u32);
}
