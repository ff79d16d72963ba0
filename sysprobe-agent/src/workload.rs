//! The totals of every workload, from the first time it was seen until its grace has ended. Several cgroups may be one
//! workload (sub-cgroups of a container), and one that goes takes nothing away: totals never go backwards.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use sysprobe_common::sched::SchedStats;

use crate::cgroup::name::Name;
use crate::sched;
use crate::snapshot::{CpuSample, Throttling, Workload, WorkloadKind, WorkloadSample};

#[derive(Debug, Default)]
pub(crate) struct Registry {
    workloads: HashMap<Workload, Totals>,
}

#[derive(Debug)]
struct Totals {
    sample: WorkloadSample,
    gone_since: Option<Instant>,
}

/// What the cpu controller's files said of one cgroup the last time, to add only what is new.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CpuSeen {
    usage_ns: u64,
    throttling: Throttling,
}

impl Registry {
    /// Adds to a workload's scheduler totals. What was never active makes no series.
    pub(crate) fn add_sched(&mut self, workload: &Workload, kind: WorkloadKind, gathered: &SchedStats) {
        if sched::is_idle(gathered) {
            return;
        }
        let sample = self.sample(workload, kind);
        sched::accumulate(sample.sched.get_or_insert_default(), gathered);
    }

    /// Adds what a cgroup's files say beyond `seen`, and takes over its settings.
    pub(crate) fn add_cpu(
        &mut self,
        workload: &Workload,
        kind: WorkloadKind,
        now: &CpuSample,
        seen: &mut CpuSeen,
    ) {
        let total = self.sample(workload, kind).cpu.get_or_insert_default();
        if let Some(usage_ns) = now.usage_ns {
            *total.usage_ns.get_or_insert(0) += usage_ns.saturating_sub(seen.usage_ns);
            seen.usage_ns = usage_ns;
        }
        if let Some(throttling) = now.throttling {
            let sum = total.throttling.get_or_insert_default();
            sum.periods += throttling.periods.saturating_sub(seen.throttling.periods);
            sum.throttled_periods +=
                throttling.throttled_periods.saturating_sub(seen.throttling.throttled_periods);
            sum.throttled_ns += throttling.throttled_ns.saturating_sub(seen.throttling.throttled_ns);
            seen.throttling = throttling;
        }
        total.quota_cores = now.quota_cores;
        total.period_us = now.period_us;
        total.burst_us = now.burst_us;
        total.weight = now.weight;
    }

    fn sample(&mut self, workload: &Workload, kind: WorkloadKind) -> &mut WorkloadSample {
        // Two look-ups, so that the usual case (it is known) copies no strings.
        if !self.workloads.contains_key(workload) {
            let sample = WorkloadSample { workload: workload.clone(), kind, sched: None, cpu: None };
            self.workloads.insert(workload.clone(), Totals { sample, gone_since: None });
        }
        let totals = self.workloads.get_mut(workload).expect("it was inserted above if it was not there");
        totals.gone_since = None;
        &mut totals.sample
    }

    /// Starts the grace of workloads that no cgroup bears any more, and drops those whose grace has ended.
    pub(crate) fn expire(&mut self, is_alive: impl Fn(&Workload) -> bool, now: Instant, grace: Duration) {
        self.workloads.retain(|workload, totals| {
            if is_alive(workload) {
                totals.gone_since = None;
                return true;
            }
            now.duration_since(*totals.gone_since.get_or_insert(now)) < grace
        });
    }

    #[must_use]
    pub(crate) fn samples(&self) -> Vec<WorkloadSample> {
        self.workloads.values().map(|totals| totals.sample.clone()).collect()
    }
}

/// The labels of a cgroup that is no pod.
#[must_use]
pub(crate) fn of_cgroup(name: &Name) -> Workload {
    own(&name.name)
}

/// The labels of what is no cgroup: `kernel`, `unknown`.
#[must_use]
pub(crate) fn own(container: &str) -> Workload {
    Workload { namespace: String::new(), pod: String::new(), container: container.to_owned() }
}

#[cfg(test)]
mod tests;
