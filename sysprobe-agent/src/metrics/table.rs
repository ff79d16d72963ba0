//! The table of metrics: name, help, unit, type, labels and source. `/metrics`, `docs/metrics.md` and the
//! checks of dashboards and alerts all come from it. Units are base units; `name` contains neither the unit
//! nor a counter's `_total`, which are appended.

use super::emit::Emit;
pub(crate) use crate::snapshot::seconds;
use crate::snapshot::{HistogramScope, PodTotals, Snapshot, Workload, WorkloadSample};

mod agent;
mod block;
mod cpu;
mod memory;
mod net;
mod pressure;
mod reclaim;
mod rxpath;
mod sched;
mod tcp;
mod threads;
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
    /// The source of the numbers in the kernel, for the documentation.
    pub source: &'static str,
    pub emit: fn(&Snapshot, &mut Emit),
}

/// The labels of every workload series.
pub const WORKLOAD: &[&str] = &["namespace", "pod", "container"];

/// All families, in the order of the exposition.
pub fn all() -> impl Iterator<Item = &'static Metric> {
    sched::SCHED
        .iter()
        .chain(threads::THREADS)
        .chain(vfs::VFS)
        .chain(block::BLOCK)
        .chain(tcp::TCP)
        .chain(net::NET)
        .chain(cpu::CPU)
        .chain(memory::MEMORY)
        .chain(rxpath::RXPATH)
        .chain(reclaim::RECLAIM)
        .chain(pressure::PRESSURE)
        .chain(agent::AGENT)
}

/// The containers of a pod share one histogram, unless the configuration separates them.
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

impl Metric {
    /// The name in queries and in the text form.
    #[must_use]
    pub fn full_name(&self) -> String {
        let total = if self.kind == Kind::Counter { "_total" } else { "" };
        format!("{}{total}", self.family_name())
    }

    /// The family's name in OpenMetrics.
    pub(super) fn family_name(&self) -> String {
        match self.unit.suffix() {
            Some(unit) => format!("{}_{unit}", self.name),
            None => self.name.to_owned(),
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
