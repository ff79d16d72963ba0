//! Storage: starts the programs, and adds what each cgroup gathered to its workload's totals.

mod registers;
mod syscalls;

use aya::maps::{Array, MapData};
use sysprobe_common::hist;
use sysprobe_common::vfs::{Operation, OperationStats, SHARDS, VfsLoss, VfsStats};

use crate::bpf::{LoadError, Loaded, Loader, MappedArray, Running};
use crate::plan::{Candidate, Plan, Shards};
use crate::probe::{self, TierSet};
use crate::slots::{self, Counters, Names, Slots};
use crate::snapshot::{LostUpdates, OperationSample, VfsSample};

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

const NOTHING: OperationStats =
    OperationStats { latency_ns: 0, bytes: 0, errors: 0, pad: 0, latency: [0; hist::BUCKETS] };

impl Counters for VfsStats {
    const ZERO: Self = Self { transfers: [[NOTHING; 2]; SHARDS], others: [NOTHING; Operation::COUNT - 2] };

    fn combine(&mut self, other: &Self, wide: fn(u64, u64) -> u64, narrow: fn(u32, u32) -> u32) {
        for (own, other) in self.all_mut().zip(other.all()) {
            own.latency_ns = wide(own.latency_ns, other.latency_ns);
            own.bytes = wide(own.bytes, other.bytes);
            own.errors = narrow(own.errors, other.errors);
            for (own, other) in own.latency.iter_mut().zip(&other.latency) {
                *own = narrow(*own, *other);
            }
        }
    }
}

/// Adds what was gathered to a workload's totals.
pub fn accumulate(total: &mut VfsSample, gathered: &VfsStats) {
    for operation in Operation::ALL {
        for gathered in gathered.of(operation) {
            accumulate_operation(total.of_mut(operation), gathered);
        }
    }
}

fn accumulate_operation(total: &mut OperationSample, gathered: &OperationStats) {
    total.errors += u64::from(gathered.errors);
    total.bytes += gathered.bytes;
    total.latency.sum_ns += gathered.latency_ns;
    for (total, gathered) in total.latency.buckets.iter_mut().zip(&gathered.latency) {
        *total += u64::from(*gathered);
    }
}

/// A program that is adding may have got no further than the first of these.
fn is_unused(gathered: &OperationStats) -> bool {
    let silent = gathered.latency_ns == 0 && gathered.bytes == 0 && gathered.errors == 0;
    silent && gathered.latency.iter().all(|count| *count == 0)
}

/// Whether anything was gathered at all.
#[must_use]
pub fn is_idle(gathered: &VfsStats) -> bool {
    gathered.all().all(is_unused)
}
