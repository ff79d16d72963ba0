//! Storage: starts the programs, and adds what each cgroup gathered to its workload's totals.

mod registers;
mod syscalls;

use aya::maps::{Array, MapData};
use sysprobe_common::operation::OperationStats;
use sysprobe_common::vfs::{Operation, SHARDS, VfsLoss, VfsStats};

use crate::bpf::{LoadError, Loaded, Loader, MappedArray, Running};
use crate::operation;
use crate::plan::{Candidate, Plan, Shards};
use crate::probe::{self, TierSet};
use crate::slots::{self, Counters, Names, Slots};
use crate::snapshot::{LostUpdates, VfsSample};

/// The attached programs and their maps.
pub struct Vfs {
    loaded: Loaded,
    slots: Slots<VfsStats>,
    losses: MappedArray<u64>,
}

const MAPS: Names = Names { stats: "VFS_STATS", known: "VFS_SLOTS", free: "VFS_FREE" };

impl Vfs {
    /// Loads and attaches; from here on every call that begins is counted.
    pub fn start(
        loader: &Loader,
        set: &'static TierSet,
        candidate: &Candidate,
        plan: &Plan,
    ) -> Result<Self, LoadError> {
        let mut globals = candidate.globals.clone();
        globals.extend(registers::GLOBALS);
        let mut sizes = MAPS.sizes(plan.slots, Shards::ONE).to_vec();
        if probe::keeps_tasks_in_hash(set.tier) {
            globals.push(registers::RETURN_ADDRESS);
            sizes.push(("VFS_CALLS", plan.tasks));
        }
        let mut loaded = loader.load(set, &globals, &sizes)?;
        fill_syscalls(loaded.take_map("VFS_SYSCALLS")?)?;
        let slots = Slots::new(&mut loaded, MAPS, plan.slots, Shards::ONE)?;
        let losses = loaded.map_array("VFS_LOSSES")?;
        loaded.attach()?;
        Ok(Self { loaded, slots, losses })
    }

    pub const fn slots(&mut self) -> &mut Slots<VfsStats> {
        &mut self.slots
    }

    pub fn losses(&self) -> impl Iterator<Item = LostUpdates> {
        slots::losses("vfs", &self.losses, VfsLoss::ALL.map(VfsLoss::reason))
    }

    /// How many cgroups had a slot when they were last listed.
    #[must_use]
    pub const fn slots_in_use(&self) -> u64 {
        self.slots.in_use()
    }
}

impl Running for Vfs {
    fn loaded(&self) -> &Loaded {
        &self.loaded
    }
}

fn fill_syscalls(mut map: Array<MapData, u32>) -> Result<(), LoadError> {
    for (number, call) in syscalls::table() {
        let failed =
            |error: aya::maps::MapError| LoadError::Map { map: "VFS_SYSCALLS", reason: error.to_string() };
        map.set(number, call.encode(), 0).map_err(failed)?;
    }
    Ok(())
}

impl Counters for VfsStats {
    const ZERO: Self = Self {
        transfers: [[OperationStats::ZERO; 2]; SHARDS],
        others: [OperationStats::ZERO; Operation::COUNT - 2],
    };

    fn combine(&mut self, other: &Self, wide: fn(u64, u64) -> u64, narrow: fn(u32, u32) -> u32) {
        for (own, other) in self.all_mut().zip(other.all()) {
            operation::combine(own, other, wide, narrow);
        }
    }
}

/// Adds what was gathered to a workload's totals.
pub fn accumulate(total: &mut VfsSample, gathered: &VfsStats) {
    for operation in Operation::ALL {
        for gathered in gathered.of(operation) {
            operation::accumulate(total.of_mut(operation), gathered);
        }
    }
}

/// Whether anything was gathered at all.
#[must_use]
pub fn is_idle(gathered: &VfsStats) -> bool {
    gathered.all().all(operation::is_unused)
}
