//! The JSON form of one window, for scripts. Within a version, fields keep their names and meanings; new ones
//! may be added.

use schemars::JsonSchema;
use serde::Serialize;
use sysprobe_common::vfs::Operation;

use super::{
    selection::{self, Selection},
    views::View,
};
use crate::cli::rows::Row;
use crate::cli::{format, page};
use crate::snapshot::{Snapshot, Workload, WorkloadKind};

mod io;
mod latency;
mod network;

pub use io::{DeviceDocument, OperationDocument, RequestDocument, StorageDocument};
pub use latency::LatencyDocument;
pub use network::NetworkDocument;

/// The version of these forms; it changes when a field is removed or changes its meaning.
pub const VERSION: u32 = 2;

/// One window. The fields of a workload depend on the table.
pub type Document<'a, W> = page::document::Document<'a, Numbers<W>>;

/// The workloads of a window.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Numbers<W> {
    /// Number of workloads on this node, before any filter. It counts each container separately and includes
    /// idle workloads.
    pub workloads_total: usize,
    /// The selected workloads in the requested order: one entry per pod (or, with `--containers`, per
    /// container), and one per workload outside of pods.
    pub workloads: Vec<W>,
}

/// The workload that the numbers belong to.
#[derive(Debug, JsonSchema, Serialize)]
pub struct WhoDocument<'a> {
    /// Kubernetes namespace. Empty outside of pods.
    pub namespace: &'a str,
    /// Pod name. Empty outside of pods.
    pub pod: &'a str,
    /// Container name or id, systemd unit or cgroup path (untrusted text). Empty for a pod as a whole.
    pub container: &'a str,
    /// Kind of the workload.
    pub kind: WorkloadKind,
}

/// One workload in the window of `sysprobe top`. A number is `None` if its domain is off or it does not
/// apply.
#[derive(Debug, JsonSchema, Serialize)]
pub struct WorkloadDocument<'a> {
    #[serde(flatten)]
    pub who: WhoDocument<'a>,
    /// Number of CPUs in use, on average over the window.
    pub cpu_cores: Option<f64>,
    /// CPU limit as a number of CPUs. `None` without a quota.
    pub cpu_quota_cores: Option<f64>,
    /// Share of the CPU quota's periods in which the workload was throttled (0..1). For a pod, the highest
    /// share among its cgroups. `None` if no quota period elapsed.
    pub throttled_ratio: Option<f64>,
    /// Throttled seconds per second of the window. They are summed over CPUs and can exceed 1. `None` if no
    /// quota period elapsed.
    pub throttled_seconds_per_second: Option<f64>,
    /// Median length of the waits for a CPU that ended in the window, in seconds. Like all quantiles, it is
    /// off by at most 9.1 %. `None` without waits.
    pub wait_p50_seconds: Option<f64>,
    /// 99th percentile of the waits for a CPU that ended in the window, in seconds. `None` without waits.
    pub wait_p99_seconds: Option<f64>,
    /// Upper bound of the longest wait for a CPU, in seconds. If `wait_above_range` is true, at least one
    /// wait was longer. `None` without waits.
    pub wait_max_seconds: Option<f64>,
    /// Whether a wait was longer than the histogram's range of 32 s.
    pub wait_above_range: bool,
    /// Seconds of waiting for a CPU per second of the window: the mean number of waiting tasks.
    pub wait_seconds_per_second: Option<f64>,
    /// Context switches per second in which a task left the CPU to wait for something.
    pub voluntary_switches_per_second: Option<f64>,
    /// Context switches per second in which a task was preempted while runnable.
    pub involuntary_switches_per_second: Option<f64>,
    /// Calls of `fsync`, `fdatasync`, `sync_file_range` and `msync` per second.
    pub fsyncs_per_second: Option<f64>,
    /// 99th percentile of the time that these calls of the `fsync` family took, in seconds. `None` without
    /// such a call in the window.
    pub fsync_p99_seconds: Option<f64>,
}

/// One document on one line, with its newline.
pub fn line(
    earlier: &Snapshot,
    later: &Snapshot,
    selection: &Selection,
    source: &str,
) -> serde_json::Result<String> {
    let rows = selection::rows(earlier, later, selection);
    match selection.view {
        View::Cpu => document(earlier, later, source, rows.iter().map(WorkloadDocument::new)),
        View::Io => document(earlier, later, source, rows.iter().map(StorageDocument::new)),
        View::Net => document(earlier, later, source, rows.iter().map(NetworkDocument::new)),
        View::Latency => document(earlier, later, source, rows.iter().map(LatencyDocument::new)),
    }
}

fn document<W: Serialize>(
    earlier: &Snapshot,
    later: &Snapshot,
    source: &str,
    workloads: impl Iterator<Item = W>,
) -> serde_json::Result<String> {
    let numbers = Numbers { workloads_total: later.workloads.len(), workloads: workloads.collect() };
    Document::new(VERSION, earlier, later, source, numbers).line()
}

impl<'a> WhoDocument<'a> {
    fn new(row: &'a Row) -> Self {
        let Workload { namespace, pod, container } = &row.workload;
        Self { namespace, pod, container, kind: row.kind }
    }
}

impl<'a> WorkloadDocument<'a> {
    fn new(row: &'a Row) -> Self {
        let fsync = row.operation(Operation::Fsync);
        Self {
            who: WhoDocument::new(row),
            cpu_cores: row.cpu_cores,
            cpu_quota_cores: row.quota_cores,
            throttled_ratio: row.throttled_ratio,
            throttled_seconds_per_second: row.throttled_rate,
            wait_p50_seconds: row.wait_p50,
            wait_p99_seconds: row.wait_p99,
            wait_max_seconds: row.wait_max.map(format::within_range),
            wait_above_range: row.wait_max.is_some_and(f64::is_infinite),
            wait_seconds_per_second: row.waiting,
            voluntary_switches_per_second: row.voluntary_rate,
            involuntary_switches_per_second: row.involuntary_rate,
            fsyncs_per_second: fsync.and_then(|fsync| fsync.rate),
            fsync_p99_seconds: fsync.and_then(|fsync| fsync.p99),
        }
    }
}

#[cfg(test)]
mod tests;
