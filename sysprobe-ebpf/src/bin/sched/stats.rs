//! The counters of the slots.

use aya_ebpf::bindings::BPF_F_MMAPABLE;
use aya_ebpf::btf_maps::Array;
use aya_ebpf::macros::btf_map;
use sysprobe_common::cgroup::KERNEL;
use sysprobe_common::sched::{Cause, SchedStats};
use sysprobe_common::slot;
use sysprobe_ebpf::{globals, shard};

use crate::adding::add_u64;
use crate::slots::slot_of;

globals!(
    /// Shards per slot.
    CFG_SHARDS,
);

/// By `slot * shards + shard`. Sized by the agent.
#[btf_map]
static SCHED_STATS: Array<SchedStats, 1, { BPF_F_MMAPABLE as usize }> = Array::new();

/// Adds time to one of a victim's causes if there is no room for the pair.
#[inline(always)]
pub(crate) fn blame_nobody(victim: u64, cause: Cause, ns: u64) {
    let slot = if victim == KERNEL { slot::KERNEL } else { slot_of(victim) };
    if let Some(stats) = stats_of(slot) {
        // SAFETY: the pointer is into the map's memory and stays valid while the program runs.
        add_u64(unsafe { &mut (*stats).causes[cause as usize] }, ns);
    }
}

/// This CPU's shard of a slot.
#[inline(always)]
pub(crate) fn stats_of(slot: u32) -> Option<*mut SchedStats> {
    SCHED_STATS.get_ptr_mut(slot * CFG_SHARDS.load() + shard::of_this_cpu())
}
