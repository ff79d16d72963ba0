//! What was lost, by reason.

use aya_ebpf::macros::btf_map;
use sysprobe_common::sched::SchedLoss;
use sysprobe_ebpf::counter::{self, Lanes};

#[btf_map]
static SCHED_LOSSES: Lanes = Lanes::new();

/// An interference pair found no room, so the cause of this part of a wait is now unknown.
#[cold]
#[inline(never)]
pub(crate) fn lose_place(ns: u64) {
    lose(SchedLoss::InterferenceFull);
    counter::add(&SCHED_LOSSES, SchedLoss::UNPLACED_NS, ns);
}

#[cold]
#[inline(never)]
pub(crate) fn lose(loss: SchedLoss) {
    counter::count(&SCHED_LOSSES, loss as u32);
}
