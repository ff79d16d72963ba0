//! What domains read in the files of cgroups, and how it becomes a workload's. The kernel's totals are a cgroup's and end with it;
//! only what they have grown by is added, so a workload's go on.

use crate::snapshot::{CpuSample, MemorySample, PressureSample, StallSample, Throttling, WorkloadSample};

/// What the files of one cgroup say.
pub(crate) trait Reading {
    /// The kernel's totals when they were last read.
    type Seen: Clone + Default;

    fn add_to(&self, workload: &mut WorkloadSample, seen: &mut Self::Seen);
}

/// One of the kernel's totals when it was last read. What was there before the first time is new as well: it is the cgroup's.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen(u64);

impl Seen {
    fn add_to(&mut self, total: &mut u64, now: u64) {
        *total += now.saturating_sub(self.0);
        // Some are sums over CPUs that are read one after the other, and may be a little less the next time.
        self.0 = self.0.max(now);
    }

    /// Of one that not every cgroup or kernel has.
    fn add_if_any(&mut self, total: &mut Option<u64>, now: Option<u64>) {
        if let Some(now) = now {
            self.add_to(total.get_or_insert(0), now);
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CpuSeen {
    usage: Seen,
    periods: Seen,
    throttled_periods: Seen,
    throttled: Seen,
}

impl Reading for CpuSample {
    type Seen = CpuSeen;

    /// Adds to the totals, and takes over the settings.
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
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MemorySeen {
    oom_kills: Seen,
    major_faults: Seen,
}

impl Reading for MemorySample {
    type Seen = MemorySeen;

    /// Levels are those of all its cgroups at the moment: whoever reads them anew has forgotten the last ones.
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

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PressureSeen {
    cpu: StallSeen,
    memory: StallSeen,
    io: StallSeen,
}

#[derive(Clone, Copy, Debug, Default)]
struct StallSeen {
    waiting: Seen,
    stalled: Seen,
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
