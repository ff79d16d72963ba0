//! Readings of cgroup files, and how they are added to a workload. The kernel's totals begin and end with a
//! cgroup, while a workload's begin at 0 when the agent starts; only the increase of the kernel's totals is
//! added. For a cgroup that is older than the agent, the first reading is therefore a baseline. For a cgroup
//! that was created later, all of it is new.

use super::last_kills::LastKills;
use crate::cgroup::tree::Origin;
use crate::snapshot::{
    CpuSample, MemorySample, PressureSample, StallSample, Throttling, Workload, WorkloadKind, WorkloadSample,
};

/// A reading of one cgroup's files.
pub(crate) trait Reading {
    /// The kernel's totals when they were last read.
    type Seen: AllSeen;

    fn add_to(&self, workload: &mut WorkloadSample, seen: &mut Self::Seen);

    /// Removes what a reading replaces instead of adding to it.
    fn forget_settings(_workload: &mut WorkloadSample) {}

    /// The totals that count as seen before the first reading.
    fn first_seen(&self, origin: Origin) -> Self::Seen {
        let mut seen = Self::Seen::all(match origin {
            Origin::Older => Seen(None),
            Origin::Born => Seen(Some(0)),
        });
        if origin == Origin::Older {
            let mut nowhere = WorkloadSample::new(Workload::default(), WorkloadKind::Unknown);
            self.add_to(&mut nowhere, &mut seen);
        }
        seen
    }
}

/// The totals of one domain's files.
pub(crate) trait AllSeen: Clone {
    fn all(seen: Seen) -> Self;
}

/// One of the kernel's totals when it was last read. `None` before the first reading of a cgroup that is
/// older than the agent: that reading is the baseline, even if the file could not be read when the agent
/// started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen(Option<u64>);

impl Seen {
    fn add_to(&mut self, total: &mut u64, now: u64) {
        *total += self.growth(now);
    }

    /// How much is new since the last reading.
    fn growth(&mut self, now: u64) -> u64 {
        let last = self.0.unwrap_or(now);
        // Some totals are sums over CPUs that are read one after the other, and may decrease slightly between
        // two reads.
        self.0 = Some(last.max(now));
        now.saturating_sub(last)
    }

    /// For a total that not every cgroup or kernel has.
    fn add_if_any(&mut self, total: &mut Option<u64>, now: Option<u64>) {
        if let Some(now) = now {
            self.add_to(total.get_or_insert(0), now);
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct CpuSeen {
    usage: Seen,
    periods: Seen,
    throttled_periods: Seen,
    throttled: Seen,
}

impl AllSeen for CpuSeen {
    fn all(seen: Seen) -> Self {
        Self { usage: seen, periods: seen, throttled_periods: seen, throttled: seen }
    }
}

impl Reading for CpuSample {
    type Seen = CpuSeen;

    /// Adds to the totals, and replaces the settings.
    fn add_to(&self, workload: &mut WorkloadSample, seen: &mut CpuSeen) {
        let total = workload.cpu.get_or_insert_default();
        seen.usage.add_if_any(&mut total.usage_ns, self.usage_ns);
        if let Some(Throttling { periods, throttled_periods, throttled_ns }) = self.throttling {
            let sum = total.throttling.get_or_insert_default();
            seen.periods.add_to(&mut sum.periods, periods);
            seen.throttled_periods.add_to(&mut sum.throttled_periods, throttled_periods);
            seen.throttled.add_to(&mut sum.throttled_ns, throttled_ns);
        }
        total.quota_cores = self.quota_cores;
        total.period_us = self.period_us;
        total.burst_us = self.burst_us;
        total.weight = self.weight;
    }

    fn forget_settings(workload: &mut WorkloadSample) {
        workload.cpu = workload.cpu.take().map(CpuSample::without_settings);
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct MemorySeen {
    oom_kills: Seen,
    major_faults: Seen,
}

impl MemorySeen {
    /// Those of a removed cgroup's OOM kills that no reading has counted.
    pub(crate) fn last_kills(&mut self, oom_kills: u64) -> LastKills {
        LastKills(self.oom_kills.growth(oom_kills))
    }
}

impl AllSeen for MemorySeen {
    fn all(seen: Seen) -> Self {
        Self { oom_kills: seen, major_faults: seen }
    }
}

impl Reading for MemorySample {
    type Seen = MemorySeen;

    /// Gauges are the sum over the workload's cgroups at this moment: before they are read again, the caller
    /// clears the last ones.
    fn add_to(&self, workload: &mut WorkloadSample, seen: &mut MemorySeen) {
        let total = workload.memory.get_or_insert_default();
        seen.oom_kills.add_if_any(&mut total.oom_kills, self.oom_kills);
        seen.major_faults.add_if_any(&mut total.major_faults, self.major_faults);
        total.levels = match (total.levels, self.levels) {
            (Some(others), Some(own)) => Some(others.plus(own)),
            (others, own) => others.or(own),
        };
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct PressureSeen {
    cpu: StallSeen,
    memory: StallSeen,
    io: StallSeen,
}

#[derive(Clone, Copy, Debug)]
struct StallSeen {
    waiting: Seen,
    stalled: Seen,
}

impl AllSeen for PressureSeen {
    fn all(seen: Seen) -> Self {
        let stall = StallSeen { waiting: seen, stalled: seen };
        Self { cpu: stall, memory: stall, io: stall }
    }
}

impl Reading for PressureSample {
    type Seen = PressureSeen;

    fn add_to(&self, workload: &mut WorkloadSample, seen: &mut PressureSeen) {
        let total = workload.pressure.get_or_insert_default();
        seen.cpu.add_to(&mut total.cpu, &self.cpu);
        seen.memory.add_to(&mut total.memory, &self.memory);
        seen.io.add_to(&mut total.io, &self.io);
    }
}

impl StallSeen {
    fn add_to(&mut self, total: &mut StallSample, now: &StallSample) {
        self.waiting.add_if_any(&mut total.waiting_ns, now.waiting_ns);
        self.stalled.add_if_any(&mut total.stalled_ns, now.stalled_ns);
    }
}

#[cfg(test)]
mod tests;
