//! Direct reclaim: starts the BPF programs, and adds the time that each cgroup's tasks spent in it to its
//! workload's totals.

use std::time::Instant;

use sysprobe_common::reclaim::{self, Kind, ReclaimLoss, ReclaimStats};

use crate::bpf::{Lanes, LoadError, Loaded, Loader, Plain, Running};
use crate::domain::in_progress::{Begun, InProgress};
use crate::domain::slots::{self, Charge, Counters, SlotTable, Slots};
use crate::domain::traits::{Domain, Start};
use crate::plan::{Candidate, Plan, Shards};
use crate::probe::ProgramSet;
use crate::probe::reclaim::SLOTS;
use crate::snapshot::{LostUpdates, WorkloadSample};

/// The attached programs and their maps.
pub struct Reclaim {
    loaded: Loaded,
    slots: Slots<ReclaimStats>,
    begun: InProgress<BegunReclaim>,
    losses: Lanes,
}

/// A reclaim in progress.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct BegunReclaim(reclaim::Begun);

impl Domain for Reclaim {
    fn slot_tables(&mut self) -> Vec<&mut dyn SlotTable> {
        vec![&mut self.slots]
    }

    fn losses(&self) -> Vec<LostUpdates> {
        let losses = slots::losses(Self::NAME, &self.losses, ReclaimLoss::ALL.map(ReclaimLoss::reason));
        slots::with_more(losses, ReclaimLoss::EndMissed.reason(), self.begun.removed()).collect()
    }

    fn in_use(&self) -> Vec<(&'static str, u64)> {
        vec![self.slots.in_use(), self.begun.in_use()]
    }

    fn remove_stale(&mut self, now: Instant, now_ns: u64) {
        let refused = self.losses.total(ReclaimLoss::NoMemory as u32);
        self.begun.update(refused, now, now_ns);
    }
}

impl Start for Reclaim {
    const NAME: &'static str = "reclaim";

    fn start(
        loader: &Loader,
        set: &'static ProgramSet,
        candidate: &Candidate,
        plan: &Plan,
    ) -> Result<Self, LoadError> {
        let mut loaded = loader.load(set, &candidate.globals, &plan.map_sizes(set))?;
        let slots = Slots::new(&mut loaded, SLOTS, Shards::ONE)?;
        let begun = InProgress::new(&mut loaded, "RECLAIM_BEGUN")?;
        let losses = loaded.map_lanes("RECLAIM_LOSSES")?;
        loaded.attach()?;
        Ok(Self { loaded, slots, begun, losses })
    }
}

impl Running for Reclaim {
    fn loaded(&self) -> &Loaded {
        &self.loaded
    }
}

// SAFETY: 64-bit and 32-bit integers, and arrays of them.
unsafe impl Plain for ReclaimStats {}

// SAFETY: integers without padding between or behind them.
unsafe impl aya::Pod for BegunReclaim {}

impl Default for BegunReclaim {
    fn default() -> Self {
        Self(reclaim::Begun { at: 0, kind: Kind::Machine as u32, within: 0 })
    }
}

impl Begun for BegunReclaim {
    fn begun_ns(&self) -> u64 {
        self.0.at
    }
}

impl Counters for ReclaimStats {
    const ZERO: Self = Self::ZERO;

    fn combine(&mut self, other: &Self, wide: fn(u64, u64) -> u64, _narrow: fn(u32, u32) -> u32) {
        self.took_ns = wide(self.took_ns, other.took_ns);
        self.reclaims = wide(self.reclaims, other.reclaims);
    }
}

impl Charge for ReclaimStats {
    fn is_idle(&self) -> bool {
        // A program that is adding may have got no further than the first.
        self.took_ns == 0 && self.reclaims == 0
    }

    fn add_to(&self, workload: &mut WorkloadSample) {
        let total = workload.reclaim.get_or_insert_default();
        total.took_ns += self.took_ns;
        total.reclaims += self.reclaims;
    }

    fn is_of_pods(&self) -> bool {
        false
    }
}
