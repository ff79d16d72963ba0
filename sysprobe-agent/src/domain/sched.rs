//! The scheduler: starts the BPF programs, and adds each cgroup's counters to its workload's totals.

use std::io;
use std::mem::offset_of;
use std::os::fd::AsFd;

use sysprobe_common::hist;
use sysprobe_common::sched::threads::Threads;
use sysprobe_common::sched::throttle::ThrottleStats;
use sysprobe_common::sched::{Cause, SchedLoss, SchedStats, Timeline};
use sysprobe_common::shared;

use crate::bpf::{Lanes, LoadError, Loaded, Loader, MappedArray, Plain, Running, Scan};
use crate::domain::slots::{self, Charge, Counters, SlotOwner, SlotTable, Slots};
use crate::domain::traits::{Domain, Start};
use crate::host;
use crate::plan::{CPU_SHARDS, Candidate, Plan, Shards};
use crate::probe::sched::{SLOTS, THROTTLE_SLOTS};
use crate::probe::{self, ProgramSet};
use crate::snapshot::{CausesSample, HistogramSample, LostUpdates, PodTotals, SchedSample, WorkloadSample};
use crate::storage::Store;

pub(crate) mod blame;
pub mod interference;
pub mod scan;

use interference::Interference;
use scan::TaskScan;

/// The attached programs and their maps.
pub struct Sched {
    loaded: Loaded,
    slots: Slots<SchedStats>,
    throttles: Slots<ThrottleStats>,
    interference: Interference,
    task_scan: TaskScan,
    losses: Lanes,
    store: Option<Store>,
    /// One per CPU; `None` if nothing is noted at each switch.
    timelines: Option<MappedArray<Timeline>>,
}

const TIMELINES: &str = "SCHED_TIMELINES";

impl Sched {
    /// The same slots as in `slot_tables`, typed: tests and benchmarks read them.
    pub const fn slots(&mut self) -> (&mut Slots<SchedStats>, &mut Slots<ThrottleStats>) {
        (&mut self.slots, &mut self.throttles)
    }

    /// The interference records.
    pub const fn interference(&mut self) -> &mut Interference {
        &mut self.interference
    }

    /// Resets the counts and returns the scan of all threads; `None` if the kernel rejected that program.
    pub fn begin_task_scan(&mut self) -> Option<Scan> {
        self.task_scan.begin()
    }

    /// The threads by owner, as of the last task scan.
    pub fn threads(&mut self) -> io::Result<Vec<(SlotOwner, Threads)>> {
        // Tasks that have slept until now got their slots from the scan.
        self.slots.list()?;
        Ok(self.slots.all().map(|(owner, slot)| (owner, self.task_scan.of_slot(slot))).collect())
    }

    /// Time that tasks waited for cgroups whose interference record found no room: nanoseconds without a
    /// cause.
    #[must_use]
    pub fn unplaced_ns(&self) -> u64 {
        self.losses.total(SchedLoss::UNPLACED_NS)
    }

    /// Number of waits that were not counted because the task was unknown.
    #[must_use]
    pub fn unknown_tasks(&self) -> u64 {
        self.losses.total(SchedLoss::UnknownTask as u32)
    }

    /// The scan that registers all unknown tasks.
    #[must_use]
    pub fn seed(&self) -> Option<Scan> {
        self.loaded.scan("sched_seed")
    }
}

/// Maps them as needed: the timelines of CPUs that never come online stay unmapped.
fn mapped_timelines(loaded: &Loaded) -> Result<MappedArray<Timeline>, LoadError> {
    let (map, cpus) = (loaded.map_descriptor(TIMELINES)?, loaded.map_entries(TIMELINES)?);
    MappedArray::growing(map.as_fd(), cpus).map_err(|error| unmapped(&error))
}

fn unmapped(error: &io::Error) -> LoadError {
    LoadError::Map { map: TIMELINES, reason: error.to_string() }
}

impl Domain for Sched {
    fn slot_tables(&mut self) -> Vec<&mut dyn SlotTable> {
        vec![&mut self.slots, &mut self.throttles]
    }

    fn losses(&self) -> Vec<LostUpdates> {
        let losses = slots::losses(Self::NAME, &self.losses, SchedLoss::ALL.map(SchedLoss::reason));
        slots::with_more(losses, SchedLoss::NoFreeSlot.reason(), self.slots.without_slot()).collect()
    }

    fn in_use(&self) -> Vec<(&'static str, u64)> {
        vec![self.slots.in_use(), self.throttles.in_use(), self.interference.in_use()]
    }

    fn store(&mut self) -> Option<&mut Store> {
        self.store.as_mut()
    }

    /// Accounts for tasks that are running now. CPUs that have been idle since the last flush are left
    /// asleep: there is nothing to account for.
    fn flush(&mut self) -> Result<(), LoadError> {
        let mut cpus = host::online_cpus();
        if let Some(timelines) = &mut self.timelines {
            let highest = cpus.iter().max().copied().unwrap_or(0);
            timelines.reach(highest as usize).map_err(|error| unmapped(&error))?;
            cpus.retain(|cpu| timelines.word(*cpu as usize, offset_of!(Timeline, asleep)) != Some(1));
        }
        self.loaded.run_on("sched_flush", &cpus)
    }
}

impl Start for Sched {
    const NAME: &'static str = "sched";

    fn start(
        loader: &Loader,
        set: &'static ProgramSet,
        candidate: &Candidate,
        plan: &Plan,
    ) -> Result<Self, LoadError> {
        let shards = plan.cpu_shards.shards;
        let mut globals = candidate.globals.clone();
        globals.extend([
            ("CFG_AGENT_TGID", std::process::id()),
            ("CFG_SHARDS", shards.count),
            ("CFG_ADDING", shards.adding()),
        ]);
        if probe::keeps_tasks_in_hash(set.mode) {
            let now = host::monotonic();
            globals.push(("CFG_STARTED_SECONDS", u32::try_from(now.as_secs()).unwrap_or(u32::MAX)));
            globals.push(("CFG_STARTED_NANOSECONDS", now.subsec_nanos()));
        }
        let (table, sizes) = (plan.cpu_shards.table(), plan.map_sizes(set));
        let mut loaded = loader.load_with_table(set, &globals, Some((CPU_SHARDS, &table)), &sizes)?;
        let slots = Slots::new(&mut loaded, SLOTS, shards)?;
        let throttles = Slots::new(&mut loaded, THROTTLE_SLOTS, Shards::ONE)?;
        let interference = Interference::new(&mut loaded)?;
        let losses = loaded.map_lanes("SCHED_LOSSES")?;
        let counts = loaded.map_array("SCHED_SCAN")?;
        let budget = (Self::NAME, "SCHED_BUDGET");
        let store = Store::of_set(&mut loaded, set, budget, &plan.storage)?;
        let timelines = probe::tells_causes(set.mode).then(|| mapped_timelines(&loaded)).transpose()?;
        loaded.attach()?;
        if probe::remembers_slices(set.mode) {
            loader.share(shared::SCHED_TASKS, loaded.map_descriptor("SCHED_TASKS")?);
            loader.share(shared::SCHED_TIMELINES, loaded.map_descriptor(TIMELINES)?);
        }
        let task_scan = TaskScan::new(&loaded, counts);
        Ok(Self { loaded, slots, throttles, interference, task_scan, losses, store, timelines })
    }
}

impl Running for Sched {
    fn loaded(&self) -> &Loaded {
        &self.loaded
    }
}

// SAFETY: 64-bit and 32-bit integers, and arrays of them.
unsafe impl Plain for ThrottleStats {}

// SAFETY: 64-bit and 32-bit integers, and arrays of such structures, without padding.
unsafe impl Plain for Timeline {}

impl Counters for ThrottleStats {
    const ZERO: Self = Self { throttled_ns: 0, threads: 0, lengths: [0; hist::BUCKETS] };

    fn combine(&mut self, other: &Self, wide: fn(u64, u64) -> u64, narrow: fn(u32, u32) -> u32) {
        self.throttled_ns = wide(self.throttled_ns, other.throttled_ns);
        self.threads = wide(self.threads, other.threads);
        for (own, other) in self.lengths.iter_mut().zip(&other.lengths) {
            *own = narrow(*own, *other);
        }
    }
}

// SAFETY: 64-bit and 32-bit integers, and arrays of them.
unsafe impl Plain for SchedStats {}

impl Counters for SchedStats {
    const ZERO: Self = Self {
        wait_ns: 0,
        on_cpu_ns: 0,
        voluntary: 0,
        involuntary: 0,
        causes: [0; Cause::ALL.len()],
        wait: [0; hist::BUCKETS],
    };

    fn combine(&mut self, other: &Self, wide: fn(u64, u64) -> u64, narrow: fn(u32, u32) -> u32) {
        self.wait_ns = wide(self.wait_ns, other.wait_ns);
        self.on_cpu_ns = wide(self.on_cpu_ns, other.on_cpu_ns);
        self.voluntary = narrow(self.voluntary, other.voluntary);
        self.involuntary = narrow(self.involuntary, other.involuntary);
        for (own, other) in self.causes.iter_mut().zip(other.causes) {
            *own = wide(*own, other);
        }
        for (own, other) in self.wait.iter_mut().zip(&other.wait) {
            *own = narrow(*own, *other);
        }
    }

    fn without_slot(&self) -> u64 {
        u64::from(self.voluntary) + u64::from(self.involuntary)
    }
}

impl Charge for SchedStats {
    fn is_idle(&self) -> bool {
        self.on_cpu_ns == 0
            && self.wait_ns == 0
            && self.causes.iter().all(|ns| *ns == 0)
            && self.voluntary == 0
            && self.involuntary == 0
            && self.wait.iter().all(|count| *count == 0)
    }

    fn add_to(&self, workload: &mut WorkloadSample) {
        accumulate(workload.sched.get_or_insert_default(), self);
    }

    fn add_to_pod(&self, pod: &mut PodTotals) {
        accumulate_waits(&mut pod.wait, self);
    }
}

impl Charge for ThrottleStats {
    fn is_idle(&self) -> bool {
        self.throttled_ns == 0 && self.threads == 0 && self.lengths.iter().all(|count| *count == 0)
    }

    fn add_to(&self, workload: &mut WorkloadSample) {
        let total = workload.throttle.get_or_insert_default();
        total.lengths.gather(&self.lengths, self.throttled_ns);
        total.threads += self.threads;
    }

    fn is_of_pods(&self) -> bool {
        false
    }
}

/// Adds a slot's counters to a workload's totals.
pub fn accumulate(total: &mut SchedSample, gathered: &SchedStats) {
    accumulate_waits(&mut total.wait, gathered);
    total.on_cpu_ns += gathered.on_cpu_ns;
    total.voluntary_switches += u64::from(gathered.voluntary);
    total.involuntary_switches += u64::from(gathered.involuntary);
    if gathered.causes.iter().any(|ns| *ns != 0) {
        accumulate_causes(total.causes.get_or_insert_default(), gathered);
    }
}

/// Adds the part of its waits whose cause the kernel side knows.
fn accumulate_causes(total: &mut CausesSample, gathered: &SchedStats) {
    for cause in Cause::ALL {
        if let Some(total) = of_cause(total, cause) {
            *total += gathered.causes[cause as usize];
        }
    }
}

/// `None` for other cgroups: the interference records tell which of them it was.
const fn of_cause(total: &mut CausesSample, cause: Cause) -> Option<&mut u64> {
    Some(match cause {
        Cause::Idle => &mut total.idle_ns,
        Cause::Own => &mut total.same_pod_ns,
        Cause::Kernel => &mut total.kernel_ns,
        Cause::Interrupt => &mut total.interrupt_ns,
        Cause::Throttled => &mut total.throttled_ns,
        Cause::Unknown => &mut total.unknown_ns,
        Cause::Other => return None,
    })
}

/// The same for the histogram alone.
fn accumulate_waits(total: &mut HistogramSample, gathered: &SchedStats) {
    total.gather(&gathered.wait, gathered.wait_ns);
}
