//! Adds a reclaim to the slot of the task's cgroup.

use aya_ebpf::bindings::BPF_F_MMAPABLE;
use aya_ebpf::btf_maps::Array;
use aya_ebpf::macros::btf_map;
use sysprobe_common::reclaim::{ReclaimLoss, ReclaimStats};
use sysprobe_ebpf::atomic;
use sysprobe_ebpf::cgroup::id_of_task;
use sysprobe_ebpf::counter::{self, Lanes};
use sysprobe_ebpf::kernel::Address;
use sysprobe_ebpf::slots::{self, Free, Known, Missing, Room};

/// By slot. Sized by the agent.
#[btf_map]
static RECLAIM_STATS: Array<ReclaimStats, 1, { BPF_F_MMAPABLE as usize }> = Array::new();
#[btf_map]
static RECLAIM_SLOTS: Known = Known::new();
#[btf_map]
static RECLAIM_FREE: Free = Free::new();
#[btf_map]
static RECLAIM_ROOM: Room = Room::new();
#[btf_map]
static RECLAIM_LOSSES: Lanes = Lanes::new();

#[inline(always)]
pub(crate) fn book(took: u64) {
    let task = Address::current();
    let slot =
        slots::find(&RECLAIM_SLOTS, (&RECLAIM_FREE, &RECLAIM_ROOM), task, id_of_task(task), |missing| {
            lose(match missing {
                Missing::UnreadableCgroup => ReclaimLoss::UnreadableCgroup,
                Missing::NoFreeSlot => ReclaimLoss::NoFreeSlot,
            });
        });
    let Some(stats) = RECLAIM_STATS.get_ptr_mut(slot) else { return };
    // SAFETY: the pointer is into the map's memory and stays valid while the program runs.
    let stats = unsafe { &mut *stats };
    atomic::add_u64(&mut stats.took_ns, took);
    atomic::add_u64(&mut stats.reclaims, 1);
}

#[inline(always)]
pub(crate) fn lose(loss: ReclaimLoss) {
    lose_several(loss, 1);
}

#[cold]
#[inline(never)]
pub(crate) fn lose_several(loss: ReclaimLoss, several: u64) {
    counter::add(&RECLAIM_LOSSES, loss as u32, several);
}
