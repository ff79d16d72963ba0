//! Direct reclaim: starts the programs, and adds what each cgroup's tasks spent on it to its workload's totals.

use sysprobe_common::reclaim::{ReclaimLoss, ReclaimStats};

use crate::bpf::{LoadError, Loaded, Loader, MappedArray, Running};
use crate::plan::{Candidate, Plan, Shards};
use crate::probe::TierSet;
use crate::slots::{self, Counters, Names, Slots};
use crate::snapshot::{LostUpdates, ReclaimSample};

/// The attached programs and their maps.
pub struct Reclaim {
    loaded: Loaded,
    slots: Slots<ReclaimStats>,
    losses: MappedArray<u64>,
}

const MAPS: Names = Names { stats: "RECLAIM_STATS", known: "RECLAIM_SLOTS", free: "RECLAIM_FREE" };
/// Tasks that may be at it at one time. The kernel sets 128 entries aside for each CPU that uses a hash of this kind: with fewer than
/// that on 64 CPUs it would push out what is needed.
pub const AT_ONCE: u32 = 8_192;

impl Reclaim {
    /// Loads and attaches; from here on every reclaim that begins is counted when it ends.
    pub fn start(
        loader: &Loader,
        set: &'static TierSet,
        candidate: &Candidate,
        plan: &Plan,
    ) -> Result<Self, LoadError> {
        let mut sizes = MAPS.sizes(plan.slots, Shards::ONE).to_vec();
        sizes.push(("RECLAIM_BEGUN", AT_ONCE));
        let mut loaded = loader.load(set, &candidate.globals, &sizes)?;
        let slots = Slots::new(&mut loaded, MAPS, plan.slots, Shards::ONE)?;
        let losses = loaded.map_array("RECLAIM_LOSSES")?;
        loaded.attach()?;
        Ok(Self { loaded, slots, losses })
    }

    pub const fn slots(&mut self) -> &mut Slots<ReclaimStats> {
        &mut self.slots
    }

    pub fn losses(&self) -> impl Iterator<Item = LostUpdates> {
        slots::losses("reclaim", &self.losses, ReclaimLoss::ALL.map(ReclaimLoss::reason))
    }

    /// How many slots there were when they were last listed.
    #[must_use]
    pub const fn slots_in_use(&self) -> u64 {
        self.slots.in_use()
    }
}

impl Running for Reclaim {
    fn loaded(&self) -> &Loaded {
        &self.loaded
    }
}

impl Counters for ReclaimStats {
    const ZERO: Self = Self::ZERO;

    fn combine(&mut self, other: &Self, wide: fn(u64, u64) -> u64, _narrow: fn(u32, u32) -> u32) {
        self.took_ns = wide(self.took_ns, other.took_ns);
        self.reclaims = wide(self.reclaims, other.reclaims);
    }
}

/// Adds what was gathered to a workload's totals.
pub fn accumulate(total: &mut ReclaimSample, gathered: &ReclaimStats) {
    total.took_ns += gathered.took_ns;
    total.reclaims += gathered.reclaims;
}
