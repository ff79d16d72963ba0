//! Programs that tasks start: starts the BPF programs, and adds each cgroup's counters to its workload's
//! totals.

use sysprobe_common::exec::{ExecLoss, ExecStats};

use crate::bpf::{Lanes, LoadError, Loaded, Loader, Plain, Running};
use crate::domain::slots::{self, Charge, Counters, SlotTable, Slots};
use crate::domain::traits::{Domain, Start};
use crate::plan::{Candidate, Plan, Shards};
use crate::probe::ProgramSet;
use crate::probe::exec::SLOTS;
use crate::snapshot::{LostUpdates, WorkloadSample};

/// The attached programs and their maps.
pub struct Exec {
    loaded: Loaded,
    slots: Slots<ExecStats>,
    losses: Lanes,
}

impl Domain for Exec {
    fn slot_tables(&mut self) -> Vec<&mut dyn SlotTable> {
        vec![&mut self.slots]
    }

    fn losses(&self) -> Vec<LostUpdates> {
        slots::losses(Self::NAME, &self.losses, ExecLoss::ALL.map(ExecLoss::reason)).collect()
    }

    fn in_use(&self) -> Vec<(&'static str, u64)> {
        vec![self.slots.in_use()]
    }
}

impl Start for Exec {
    const NAME: &'static str = "exec";

    fn start(
        loader: &Loader,
        set: &'static ProgramSet,
        candidate: &Candidate,
        plan: &Plan,
    ) -> Result<Self, LoadError> {
        let mut loaded = loader.load(set, &candidate.globals, &plan.map_sizes(set))?;
        let slots = Slots::new(&mut loaded, SLOTS, Shards::ONE)?;
        let losses = loaded.map_lanes("EXEC_LOSSES")?;
        loaded.attach()?;
        Ok(Self { loaded, slots, losses })
    }
}

impl Running for Exec {
    fn loaded(&self) -> &Loaded {
        &self.loaded
    }
}

// SAFETY: a 64-bit integer.
unsafe impl Plain for ExecStats {}

impl Counters for ExecStats {
    const ZERO: Self = Self::ZERO;

    fn combine(&mut self, other: &Self, wide: fn(u64, u64) -> u64, _narrow: fn(u32, u32) -> u32) {
        self.execs = wide(self.execs, other.execs);
    }
}

impl Charge for ExecStats {
    fn is_idle(&self) -> bool {
        *self == Self::ZERO
    }

    fn add_to(&self, workload: &mut WorkloadSample) {
        workload.exec.get_or_insert_default().execs += self.execs;
    }

    fn is_of_pods(&self) -> bool {
        false
    }
}
