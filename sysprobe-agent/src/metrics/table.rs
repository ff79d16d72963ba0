//! The table of metrics: name, help, unit, type, labels, and where the numbers come from. `/metrics`, `docs/metrics.md`
//! and the checks of dashboards and alerts all come from it. Units are base units; a counter's `_total` and the unit are
//! not part of `name` and get appended.

use super::collector::Emit;
use crate::snapshot::{HistogramScope, PodTotals, SchedSample, Snapshot, Workload, WorkloadSample};

mod agent;
mod block;
mod cpu;
mod memory;
mod net;
mod pressure;
mod reclaim;
mod tcp;
mod vfs;

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
    SCHED
        .iter()
        .chain(vfs::VFS)
        .chain(block::BLOCK)
        .chain(tcp::TCP)
        .chain(net::NET)
        .chain(cpu::CPU)
        .chain(memory::MEMORY)
        .chain(reclaim::RECLAIM)
        .chain(pressure::PRESSURE)
        .chain(agent::AGENT)
}

static SCHED: &[Metric] = &[
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
];

fn wait_histograms(snapshot: &Snapshot, emit: &mut Emit) {
    histograms(
        snapshot,
        |row, emit| {
            if let Some(sched) = &row.sched {
                emit.histogram(&row.workload, &sched.wait);
            }
        },
        |pod, workload, emit| emit.histogram(workload, &pod.wait),
        emit,
    );
}

/// Those of a pod's containers are one, unless the configuration wants them apart.
fn histograms(
    snapshot: &Snapshot,
    of_workload: impl Fn(&WorkloadSample, &mut Emit),
    of_pod: impl Fn(&PodTotals, &Workload, &mut Emit),
    emit: &mut Emit,
) {
    let by_pod = snapshot.histograms == HistogramScope::Pod;
    for row in snapshot.workloads.iter().filter(|row| !(by_pod && row.pod.is_some())) {
        of_workload(row, emit);
    }
    for pod in snapshot.pods.iter().filter(|_| by_pod) {
        let PodTotals { namespace, pod: name, .. } = pod;
        let workload = Workload { namespace: namespace.clone(), pod: name.clone(), ..Workload::default() };
        of_pod(pod, &workload, emit);
    }
}

fn each_sched(snapshot: &Snapshot, mut emit: impl FnMut(&WorkloadSample, &SchedSample)) {
    for row in &snapshot.workloads {
        if let Some(sched) = &row.sched {
            emit(row, sched);
        }
    }
}

pub(crate) fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
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
