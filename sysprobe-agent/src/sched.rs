//! Scheduler: starts the programs, and turns their slots into what each cgroup gathered since it was last read.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use aya::maps::{HashMap, MapData, Stack};
use sysprobe_common::sched::{SchedLoss, SchedStats};
use sysprobe_common::{hist, slot};

use crate::bpf::{Entries, LoadError, Loaded, Loader, MappedArray};
use crate::host;
use crate::plan::{Candidate, Plan, Shards};
use crate::probe::{self, TierSet};
use crate::snapshot::{HistogramSample, LostUpdates, SchedSample};

/// The attached programs and their maps.
pub struct Sched {
    loaded: Loaded,
    stats: MappedArray<SchedStats>,
    losses: MappedArray<u64>,
    slots: HashMap<MapData, u64, u32>,
    /// The same map, for reading it in batches.
    slots_descriptor: OwnedFd,
    free: Stack<MapData, u32>,
    entries: Entries,
    shards: Shards,
    /// What each slot held when it was last read.
    last: Vec<SchedStats>,
}

/// Whose numbers a slot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    Cgroup(u64),
    Kernel,
    Unknown,
}

const ZERO: SchedStats =
    SchedStats { wait_ns: 0, on_cpu_ns: 0, voluntary: 0, involuntary: 0, wait: [0; hist::BUCKETS] };

impl Sched {
    /// Loads and attaches; from here on everything that runs is counted.
    pub fn start(
        loader: &Loader,
        set: &'static TierSet,
        candidate: &Candidate,
        plan: &Plan,
    ) -> Result<Self, LoadError> {
        let mut globals = candidate.globals.clone();
        globals.extend([
            ("CFG_AGENT_TGID", std::process::id()),
            ("CFG_SHARD_BITS", plan.shards.bits),
            ("CFG_SHARED", u32::from(plan.shards.shared)),
        ]);
        let mut sizes = vec![
            ("SCHED_STATS", plan.slots * plan.shards.count()),
            ("SCHED_SLOTS", plan.slots),
            ("SCHED_FREE", plan.slots),
        ];
        if probe::keeps_tasks_in_hash(set.tier) {
            let now = host::monotonic();
            globals.push(("CFG_STARTED_SECONDS", u32::try_from(now.as_secs()).unwrap_or(u32::MAX)));
            globals.push(("CFG_STARTED_NANOSECONDS", now.subsec_nanos()));
            sizes.push(("SCHED_TASKS", plan.tasks));
        }
        let mut loaded = loader.load(set, &globals, &sizes)?;
        let mut sched = Self {
            stats: loaded.map_array("SCHED_STATS")?,
            losses: loaded.map_array("SCHED_LOSSES")?,
            slots_descriptor: loaded.map_descriptor("SCHED_SLOTS")?,
            slots: loaded.take_map("SCHED_SLOTS")?,
            free: loaded.take_map("SCHED_FREE")?,
            entries: Entries::with_capacity(plan.slots),
            shards: plan.shards,
            last: vec![ZERO; plan.slots as usize],
            loaded,
        };
        // The stack gives back what was pushed last: low numbers first keep the used memory together.
        for slot in (slot::FIRST_FREE..plan.slots).rev() {
            sched.give_back(slot)?;
        }
        sched.loaded.attach()?;
        Ok(sched)
    }

    fn give_back(&mut self, slot: u32) -> Result<(), LoadError> {
        let full =
            |error: aya::maps::MapError| LoadError::Map { map: "SCHED_FREE", reason: error.to_string() };
        self.free.push(slot, 0).map_err(full)
    }

    /// Books what runs at this moment, so that a reader sees it.
    pub fn flush(&self) -> Result<(), LoadError> {
        self.loaded.run_on("sched_flush", &host::online_cpus())
    }

    /// Looks up which cgroups have slots now, for `read`.
    pub fn list_slots(&mut self) -> io::Result<()> {
        self.entries.read(self.slots_descriptor.as_fd())
    }

    /// Hands what each listed slot gathered since the last reading to `take`, if `knows` its cgroup: what is not known
    /// yet keeps its numbers. No slot has been released since they were listed.
    pub fn read(&mut self, knows: impl Fn(u64) -> bool, mut take: impl FnMut(Owner, &SchedStats)) {
        for (slot, owner) in [(slot::UNKNOWN, Owner::Unknown), (slot::KERNEL, Owner::Kernel)] {
            take(owner, &gathered(&self.stats, self.shards, &mut self.last, slot));
        }
        for (id, slot) in self.entries.iter().filter(|(id, _)| knows(*id)) {
            take(Owner::Cgroup(id), &gathered(&self.stats, self.shards, &mut self.last, slot));
        }
    }

    /// Frees the slot of a cgroup that has gone, and hands what it gathered last to `take`.
    pub fn release(&mut self, id: u64, take: impl FnOnce(&SchedStats)) -> Result<(), LoadError> {
        // Most cgroups never ran anything of their own, and so have no slot.
        let Ok(slot) = self.slots.get(&id, 0) else { return Ok(()) };
        take(&gathered(&self.stats, self.shards, &mut self.last, slot));
        let failed =
            |error: aya::maps::MapError| LoadError::Map { map: "SCHED_SLOTS", reason: error.to_string() };
        self.slots.remove(&id).map_err(failed)?;
        for element in elements(self.shards, slot) {
            self.stats.write(element, ZERO);
        }
        if let Some(last) = self.last.get_mut(slot as usize) {
            *last = ZERO;
        }
        self.give_back(slot)
    }

    pub fn losses(&self) -> impl Iterator<Item = LostUpdates> {
        SchedLoss::ALL.into_iter().map(|loss| LostUpdates {
            domain: "sched".into(),
            reason: loss.reason().into(),
            count: self.losses.read(loss as usize).unwrap_or(0),
        })
    }

    /// The cgroups that had slots when they were last listed.
    pub fn owners(&self) -> impl Iterator<Item = u64> {
        self.entries.iter().map(|(id, _)| id)
    }

    /// Bookings that were lost because nobody knew the task.
    #[must_use]
    pub fn unknown_tasks(&self) -> u64 {
        self.losses.read(SchedLoss::UnknownTask as usize).unwrap_or(0)
    }

    /// Makes every task known that is not.
    pub fn seed_again(&mut self) -> Result<(), LoadError> {
        self.loaded.iterate("sched_seed")
    }

    /// How many cgroups had a slot when they were last listed.
    #[must_use]
    pub const fn slots_in_use(&self) -> u64 {
        self.entries.len() as u64
    }

    #[must_use]
    pub const fn loaded(&self) -> &Loaded {
        &self.loaded
    }
}

fn elements(shards: Shards, slot: u32) -> std::ops::Range<usize> {
    let first = (slot << shards.bits) as usize;
    first..first + shards.count() as usize
}

/// The sum over a slot's shards, less what it was last time. Every number wraps, so differences are right across a wrap.
fn gathered(
    stats: &MappedArray<SchedStats>,
    shards: Shards,
    last: &mut [SchedStats],
    slot: u32,
) -> SchedStats {
    let mut total = ZERO;
    for element in elements(shards, slot) {
        if let Some(shard) = stats.read(element) {
            combine(&mut total, &shard, u64::wrapping_add, u32::wrapping_add);
        }
    }
    let Some(last) = last.get_mut(slot as usize) else { return ZERO };
    let mut difference = total;
    combine(&mut difference, last, u64::wrapping_sub, u32::wrapping_sub);
    *last = total;
    difference
}

fn combine(
    into: &mut SchedStats,
    other: &SchedStats,
    wide: fn(u64, u64) -> u64,
    narrow: fn(u32, u32) -> u32,
) {
    into.wait_ns = wide(into.wait_ns, other.wait_ns);
    into.on_cpu_ns = wide(into.on_cpu_ns, other.on_cpu_ns);
    into.voluntary = narrow(into.voluntary, other.voluntary);
    into.involuntary = narrow(into.involuntary, other.involuntary);
    for (into, other) in into.wait.iter_mut().zip(&other.wait) {
        *into = narrow(*into, *other);
    }
}

/// Adds what was gathered to a workload's totals.
pub fn accumulate(total: &mut SchedSample, gathered: &SchedStats) {
    accumulate_waits(&mut total.wait, gathered);
    total.on_cpu_ns += gathered.on_cpu_ns;
    total.voluntary_switches += u64::from(gathered.voluntary);
    total.involuntary_switches += u64::from(gathered.involuntary);
}

/// The same of a histogram alone.
pub fn accumulate_waits(total: &mut HistogramSample, gathered: &SchedStats) {
    total.sum_ns += gathered.wait_ns;
    for (total, gathered) in total.buckets.iter_mut().zip(&gathered.wait) {
        *total += u64::from(*gathered);
    }
}

/// Whether anything was gathered at all.
#[must_use]
pub fn is_idle(gathered: &SchedStats) -> bool {
    let silent = gathered.on_cpu_ns == 0 && gathered.wait_ns == 0;
    silent
        && gathered.voluntary == 0
        && gathered.involuntary == 0
        && gathered.wait.iter().all(|count| *count == 0)
}
