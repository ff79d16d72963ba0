//! The scheduler's totals from the kernel's files and from the agent: the two sides of every comparison.

use std::fs;

use sysprobe_agent::snapshot::{SchedSample, Snapshot, WorkloadSample};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) wait_ns: u64,
    pub(crate) on_cpu_ns: u64,
    /// Arrivals on a CPU; the agent's number of waits.
    pub(crate) arrivals: u64,
    pub(crate) voluntary: u64,
    pub(crate) involuntary: u64,
}

impl Totals {
    /// The sum over the current threads of a process. Exact if the process is frozen.
    pub(crate) fn of_process(pid: i32) -> Self {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("the process runs");
        let each = tasks.filter_map(|task| Self::of_task(&task.ok()?.path().to_string_lossy()));
        each.fold(Self::default(), Self::plus)
    }

    /// `None` for a thread that has just gone.
    fn of_task(directory: &str) -> Option<Self> {
        let schedstat = fs::read_to_string(format!("{directory}/schedstat")).ok()?;
        let status = fs::read_to_string(format!("{directory}/status")).ok()?;
        let mut numbers = schedstat.split_whitespace().map_while(|number| number.parse().ok());
        let (on_cpu_ns, wait_ns, arrivals) = (numbers.next()?, numbers.next()?, numbers.next()?);
        let count = |key: &str| {
            status.lines().find_map(|line| line.strip_prefix(key)?.trim().parse::<u64>().ok()).unwrap_or(0)
        };
        Some(Self {
            wait_ns,
            on_cpu_ns,
            arrivals,
            voluntary: count("voluntary_ctxt_switches:"),
            involuntary: count("nonvoluntary_ctxt_switches:"),
        })
    }

    /// The agent's totals for a workload; zeros if it does not know the workload.
    pub(crate) fn of_workload(snapshot: &Snapshot, name: &str) -> Self {
        let sched = workload(snapshot, name).and_then(|workload| workload.sched.as_ref());
        sched.map_or_else(Self::default, Self::of_sample)
    }

    pub(crate) fn of_sample(sched: &SchedSample) -> Self {
        Self {
            wait_ns: sched.wait.sum_ns,
            on_cpu_ns: sched.on_cpu_ns,
            arrivals: sched.wait.count(),
            voluntary: sched.voluntary_switches,
            involuntary: sched.involuntary_switches,
        }
    }

    pub(crate) const fn plus(self, other: Self) -> Self {
        Self {
            wait_ns: self.wait_ns + other.wait_ns,
            on_cpu_ns: self.on_cpu_ns + other.on_cpu_ns,
            arrivals: self.arrivals + other.arrivals,
            voluntary: self.voluntary + other.voluntary,
            involuntary: self.involuntary + other.involuntary,
        }
    }

    pub(crate) const fn since(self, earlier: Self) -> Self {
        Self {
            wait_ns: self.wait_ns - earlier.wait_ns,
            on_cpu_ns: self.on_cpu_ns - earlier.on_cpu_ns,
            arrivals: self.arrivals - earlier.arrivals,
            voluntary: self.voluntary - earlier.voluntary,
            involuntary: self.involuntary - earlier.involuntary,
        }
    }

    /// Asserts that the agent's totals are the same, except for sleeps that the kernel counts as waits (Linux
    /// 6.12): the agent leaves those out. Returns the number of missing ones; the agent must have counted at
    /// least as many.
    pub(crate) fn assert_told_by(self, ours: Self, delayed: u64) -> u64 {
        if delayed == 0 {
            assert_eq!(ours, self);
        }
        let Self { wait_ns, arrivals, .. } = self.since(ours);
        assert_eq!(self.since(ours), Self { wait_ns, arrivals, ..Self::default() });
        assert!(arrivals <= delayed, "{arrivals} are missing, {delayed} are counted");
        arrivals
    }
}

pub(crate) fn workload<'a>(snapshot: &'a Snapshot, name: &str) -> Option<&'a WorkloadSample> {
    snapshot.workloads.iter().find(|workload| workload.workload.container == name)
}

/// The number of lost updates, according to the agent.
pub(crate) fn lost(snapshot: &Snapshot, domain: &str, reason: &str) -> u64 {
    let all = snapshot.agent.lost_updates.iter();
    let losses = all.filter(|loss| loss.domain == domain && loss.reason == reason);
    losses.map(|loss| loss.count).sum()
}

/// The number of skipped runs of a domain's programs, skipped because the same program was running on that
/// CPU.
pub(crate) fn missed_runs(snapshot: &Snapshot, domain: &str) -> u64 {
    let prefix = format!("{domain}_");
    let programs = snapshot.agent.programs.iter().filter(|program| program.program.starts_with(&prefix));
    programs.map(|program| program.missed).sum()
}
