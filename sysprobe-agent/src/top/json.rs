//! The JSON form of one window, for scripts. Fields keep their names and meanings within a version; new ones
//! may come.

use schemars::JsonSchema;
use serde::Serialize;
use sysprobe_common::vfs::Operation;

use super::{
    rows::{self, Row, Selection},
    views::View,
};
use crate::{
    show::format,
    snapshot::{DomainState, Snapshot, Workload, WorkloadKind},
};

mod io;
mod latency;
mod network;

pub use io::{DeviceDocument, OperationDocument, RequestDocument, StorageDocument};
pub use latency::LatencyDocument;
pub use network::NetworkDocument;

/// The version of these forms; it changes when a field goes or changes its meaning.
pub const VERSION: u32 = 2;

/// One window. What there is of a workload depends on the table.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Document<'a, W> {
    /// Of the form; it changes when a field goes or changes its meaning.
    pub version: u32,
    /// Where the numbers come from, in words for people: a running agent, or programs of the command itself.
    pub source: &'a str,
    /// The measured length of the window, which differs a little from the interval asked for.
    pub window_seconds: f64,
    /// What is measured, and why something is not.
    pub domains: &'a [DomainState],
    /// How many workloads there are, containers one by one, before the filter and without regard to idleness.
    pub workloads_total: usize,
    /// Those selected, in the order asked for: pods (`container` is empty), or with `--containers` their
    /// containers; and what is in no pod.
    pub workloads: Vec<W>,
}

/// Whose the numbers of a row are.
#[derive(Debug, JsonSchema, Serialize)]
pub struct WhoDocument<'a> {
    /// Empty for what is no pod.
    pub namespace: &'a str,
    /// Empty for what is no pod.
    pub pod: &'a str,
    /// The container's name or id, the systemd unit or the cgroup path: untrusted text. Empty for a pod as a
    /// whole.
    pub container: &'a str,
    pub kind: WorkloadKind,
}

/// One workload in the window of `top`. `null` where a domain is off or a number does not apply.
#[derive(Debug, JsonSchema, Serialize)]
pub struct WorkloadDocument<'a> {
    #[serde(flatten)]
    pub who: WhoDocument<'a>,
    /// CPUs in use, on average.
    pub cpu_cores: Option<f64>,
    /// CPUs allowed; `null` without a quota.
    pub cpu_quota_cores: Option<f64>,
    /// Throttled periods divided by periods (0..1), of a pod that of its most throttled part; `null` when no
    /// period of a quota elapsed.
    pub throttled_ratio: Option<f64>,
    /// Time throttled per second of the window, added up over CPUs on cgroup v1 and v2 alike.
    pub throttled_seconds_per_second: Option<f64>,
    /// A quantile of the waits for a CPU that ended in the window, as are all with `_pNN_`, wrong by at most
    /// 9.1 %; `null` without any.
    pub wait_p50_seconds: Option<f64>,
    /// As `wait_p50_seconds`.
    pub wait_p99_seconds: Option<f64>,
    /// No wait was longer, unless `wait_above_range`: then at least one was.
    pub wait_max_seconds: Option<f64>,
    /// Whether a wait was longer than the histogram reaches (32 s).
    pub wait_above_range: bool,
    /// Time waited per second of the window: the mean number of waiting tasks.
    pub wait_seconds_per_second: Option<f64>,
    /// Of context: the tasks waited for something.
    pub voluntary_switches_per_second: Option<f64>,
    /// Of context: others had their CPU next.
    pub involuntary_switches_per_second: Option<f64>,
    /// Calls of fsync and its kin.
    pub fsyncs_per_second: Option<f64>,
    /// `null` without any in the window.
    pub fsync_p99_seconds: Option<f64>,
}

/// One document on one line, with its newline.
pub fn line(
    earlier: &Snapshot,
    later: &Snapshot,
    selection: &Selection,
    source: &str,
) -> serde_json::Result<String> {
    let rows = rows::rows(earlier, later, selection);
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
    let document = Document {
        version: VERSION,
        source,
        window_seconds: later.window_since(earlier).as_secs_f64(),
        domains: &later.domains,
        workloads_total: later.workloads.len(),
        workloads: workloads.collect(),
    };
    Ok(serde_json::to_string(&document)? + "\n")
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
