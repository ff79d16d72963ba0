//! What was lost, by reason.

use aya_ebpf::bindings::BPF_F_MMAPABLE;
use aya_ebpf::btf_maps::Array;
use aya_ebpf::macros::btf_map;
use sysprobe_common::sched::{SchedLoss, Timeline};
use sysprobe_ebpf::counter::{self, count};

#[btf_map]
static SCHED_LOSSES: Array<u64, { SchedLoss::ALL.len() + 1 }, { BPF_F_MMAPABLE as usize }> = Array::new();

/// An interference pair found no room, so the cause of this part of a wait is now unknown.
#[inline(always)]
pub(crate) fn lose_place(ns: u64) {
    lose(SchedLoss::InterferenceFull);
    counter::add(&SCHED_LOSSES, SchedLoss::UNPLACED_NS, ns);
}

#[inline(always)]
pub(crate) fn lose(loss: SchedLoss) {
    count(&SCHED_LOSSES, loss as u32);
}

/// Moves this CPU's count to where the agent reads it.
#[inline(always)]
pub(crate) fn flush_without_slot(line: &mut Timeline) {
    // On the agent's own CPU a switch may add to it meanwhile, so it is read once.
    let without_slot = line.without_slot;
    let new = without_slot - line.without_slot_told;
    if new != 0 {
        line.without_slot_told = without_slot;
        counter::add(&SCHED_LOSSES, SchedLoss::NoFreeSlot as u32, new);
    }
}
