//! The table of metrics: name, help, unit, type, labels, and where the numbers come from. `/metrics`, `docs/metrics.md`
//! and the checks of dashboards and alerts all come from it. Units are base units; a counter's `_total` and the unit are
//! not part of `name` and get appended.

use super::collector::Emit;
use crate::snapshot::{
    CpuSample, HistogramScope, PodWaits, SchedSample, Snapshot, Throttling, Workload, WorkloadSample,
};

mod agent;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    Histogram,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    None,
    Seconds,
    Bytes,
    Cores,
}

/// One family of series.
pub struct Metric {
    pub name: &'static str,
    pub unit: Unit,
    pub kind: Kind,
    pub help: &'static str,
    pub labels: &'static [&'static str],
    /// Where the numbers come from in the kernel, for the documentation.
    pub source: &'static str,
    pub emit: fn(&Snapshot, &mut Emit),
}

/// The labels of every workload series.
pub const WORKLOAD: &[&str] = &["namespace", "pod", "container"];
const SWITCHES: &[&str] = &["namespace", "pod", "container", "kind"];

/// All families, in the order of the exposition.
pub fn all() -> impl Iterator<Item = &'static Metric> {
    WORKLOADS.iter().chain(agent::AGENT)
}

static WORKLOADS: &[Metric] = &[
    Metric {
        name: "sysprobe_sched_wakeup_latency",
        unit: Unit::Seconds,
        kind: Kind::Histogram,
        help: "Time from a task being runnable (woken, new or preempted) to its running on a CPU.",
        labels: WORKLOAD,
        source: "task_struct.sched_info.run_delay, one observation per arrival on a CPU (pcount)",
        emit: wait_histograms,
    },
    Metric {
        name: "sysprobe_sched_context_switches",
        unit: Unit::None,
        kind: Kind::Counter,
        help: "Switches away from a task: voluntary if it went to sleep, involuntary if it could have gone on.",
        labels: SWITCHES,
        source: "task_struct.nvcsw and nivcsw",
        emit: |snapshot, emit| {
            each_sched(snapshot, |row, sched| {
                emit.workload_kind(row, "voluntary", sched.voluntary_switches);
                emit.workload_kind(row, "involuntary", sched.involuntary_switches);
            });
        },
    },
    Metric {
        name: "sysprobe_sched_on_cpu",
        unit: Unit::Seconds,
        kind: Kind::Counter,
        help: "Time that tasks ran, up to the last scheduler tick, seen since the agent started.",
        labels: WORKLOAD,
        source: "task_struct.se.sum_exec_runtime",
        emit: |snapshot, emit| {
            each_sched(snapshot, |row, sched| emit.workload(row, seconds(sched.on_cpu_ns)));
        },
    },
    Metric {
        name: "sysprobe_cpu_usage",
        unit: Unit::Seconds,
        kind: Kind::Counter,
        help: "CPU time of the cgroup and those below it, as the kernel accounts it.",
        labels: WORKLOAD,
        source: "cpu.stat usage_usec; cpuacct.usage on cgroup v1",
        emit: |snapshot, emit| each_cpu_value(snapshot, emit, |cpu| Some(seconds(cpu.usage_ns?))),
    },
    Metric {
        name: "sysprobe_cpu_periods",
        unit: Unit::None,
        kind: Kind::Counter,
        help: "Enforcement periods of the CPU quota in which the cgroup was runnable.",
        labels: WORKLOAD,
        source: "cpu.stat nr_periods",
        emit: |snapshot, emit| each_throttling(snapshot, emit, |throttling| throttling.periods as f64),
    },
    Metric {
        name: "sysprobe_cpu_throttled_periods",
        unit: Unit::None,
        kind: Kind::Counter,
        help: "Enforcement periods in which the cgroup used up its CPU quota and was throttled.",
        labels: WORKLOAD,
        source: "cpu.stat nr_throttled",
        emit: |snapshot, emit| {
            each_throttling(snapshot, emit, |throttling| throttling.throttled_periods as f64);
        },
    },
    Metric {
        name: "sysprobe_cpu_throttled",
        unit: Unit::Seconds,
        kind: Kind::Counter,
        help: "Time that the cgroup was throttled, summed over its CPUs.",
        labels: WORKLOAD,
        source: "cpu.stat throttled_usec; throttled_time on cgroup v1",
        emit: |snapshot, emit| each_throttling(snapshot, emit, |throttling| seconds(throttling.throttled_ns)),
    },
    Metric {
        name: "sysprobe_cpu_quota",
        unit: Unit::Cores,
        kind: Kind::Gauge,
        help: "CPU limit: quota divided by period. No series without a limit.",
        labels: WORKLOAD,
        source: "cpu.max; cpu.cfs_quota_us and cpu.cfs_period_us on cgroup v1",
        emit: |snapshot, emit| each_cpu_value(snapshot, emit, |cpu| cpu.quota_cores),
    },
    Metric {
        name: "sysprobe_cpu_period",
        unit: Unit::Seconds,
        kind: Kind::Gauge,
        help: "Length of an enforcement period of the CPU quota.",
        labels: WORKLOAD,
        source: "cpu.max; cpu.cfs_period_us on cgroup v1",
        emit: |snapshot, emit| each_cpu_value(snapshot, emit, |cpu| Some(microseconds(cpu.period_us?))),
    },
    Metric {
        name: "sysprobe_cpu_burst",
        unit: Unit::Seconds,
        kind: Kind::Gauge,
        help: "Unused quota that may be saved up and used on top of the limit.",
        labels: WORKLOAD,
        source: "cpu.max.burst; cpu.cfs_burst_us on cgroup v1",
        emit: |snapshot, emit| each_cpu_value(snapshot, emit, |cpu| Some(microseconds(cpu.burst_us?))),
    },
    Metric {
        name: "sysprobe_cpu_weight",
        unit: Unit::None,
        kind: Kind::Gauge,
        help: "Share of CPU under contention, from 1 to 10000; 100 is the kernel's default.",
        labels: WORKLOAD,
        source: "cpu.weight; cpu.shares by the kubelet's formula on cgroup v1",
        emit: |snapshot, emit| each_cpu_value(snapshot, emit, |cpu| Some(cpu.weight? as f64)),
    },
];

/// Those of a pod's containers are one, unless the configuration wants them apart.
fn wait_histograms(snapshot: &Snapshot, emit: &mut Emit) {
    let by_pod = snapshot.histograms == HistogramScope::Pod;
    each_sched(snapshot, |row, sched| {
        if !(by_pod && row.pod.is_some()) {
            emit.histogram(&row.workload, &sched.wait);
        }
    });
    if by_pod {
        for PodWaits { namespace, pod, wait } in &snapshot.pod_waits {
            let workload = Workload { namespace: namespace.clone(), pod: pod.clone(), ..Workload::default() };
            emit.histogram(&workload, wait);
        }
    }
}

fn each_sched(snapshot: &Snapshot, mut emit: impl FnMut(&WorkloadSample, &SchedSample)) {
    for row in &snapshot.workloads {
        if let Some(sched) = &row.sched {
            emit(row, sched);
        }
    }
}

fn each_cpu_value(snapshot: &Snapshot, emit: &mut Emit, value: impl Fn(&CpuSample) -> Option<f64>) {
    for row in &snapshot.workloads {
        if let Some(value) = row.cpu.as_ref().and_then(&value) {
            emit.workload(row, value);
        }
    }
}

/// Only cgroups with a quota, or with one in the past, have periods worth a series.
fn each_throttling(snapshot: &Snapshot, emit: &mut Emit, value: impl Fn(&Throttling) -> f64) {
    each_cpu_value(snapshot, emit, |cpu| {
        let throttling = cpu.throttling.as_ref()?;
        (cpu.quota_cores.is_some() || throttling.periods > 0).then(|| value(throttling))
    });
}

pub(crate) fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

fn microseconds(microseconds: u64) -> f64 {
    microseconds as f64 / 1e6
}

impl Metric {
    /// The name in queries and in the text form.
    #[must_use]
    pub fn full_name(&self) -> String {
        let total = if self.kind == Kind::Counter { "_total" } else { "" };
        match self.unit.suffix() {
            Some(unit) => format!("{}_{unit}{total}", self.name),
            None => format!("{}{total}", self.name),
        }
    }
}

impl Unit {
    #[must_use]
    pub const fn suffix(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Seconds => Some("seconds"),
            Self::Bytes => Some("bytes"),
            Self::Cores => Some("cores"),
        }
    }
}

impl Kind {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

#[cfg(test)]
mod tests;
