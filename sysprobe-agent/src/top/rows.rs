//! What the table shows: the difference of two snapshots, one row per workload, selected and sorted. Pure; how a
//! number looks is `format`'s business.

use std::collections::HashMap;

use sysprobe_common::vfs::Operation;

use super::topic::Topic;
use crate::snapshot::{
    CpuSample, HistogramSample, SchedSample, Snapshot, Throttling, Workload, WorkloadKind, WorkloadSample,
};

mod disk;
mod network;
mod received;
mod sort;
mod storage;

pub use disk::{DeviceRow, DiskRow, RequestRow};
pub use network::{NetworkRow, TcpRow};
pub use received::ReceivedRow;
pub use sort::SortKey;
pub use storage::{OperationRow, StorageRow};

/// Which rows, in which order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Which table they are for: it says what is idle.
    pub topic: Topic,
    pub sort: SortKey,
    pub reverse: bool,
    /// The only one whose pods are shown.
    pub namespace: Option<String>,
    /// Part of a namespace, pod or container, whatever its case; empty matches everything.
    pub filter: String,
    /// Whether to keep workloads in which nothing happened.
    pub all: bool,
}

/// One workload in one window. A number is `None` where its domain is off or does not apply, and without waits.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub workload: Workload,
    pub kind: WorkloadKind,
    /// CPUs in use, on average: from the scheduler where it is watched, else from the cgroup's own account.
    pub cpu_cores: Option<f64>,
    pub quota_cores: Option<f64>,
    /// The share of periods that ended in throttling; `None` when no period of a quota elapsed.
    pub throttled_ratio: Option<f64>,
    /// Seconds throttled per second; the kernel adds CPUs up, so it can exceed one.
    pub throttled_rate: Option<f64>,
    pub wait_p50: Option<f64>,
    pub wait_p99: Option<f64>,
    /// The upper bound of the longest wait's bucket; infinite above the histogram's range.
    pub wait_max: Option<f64>,
    /// Seconds waited per second: how many tasks waited for a CPU, on average.
    pub waiting: Option<f64>,
    pub voluntary_rate: Option<f64>,
    pub involuntary_rate: Option<f64>,
    pub storage: Option<StorageRow>,
    /// `None` also for one that never asked anything of a device.
    pub disk: Option<DiskRow>,
    /// `None` also for one that never had to do with the network.
    pub network: Option<NetworkRow>,
    /// `None` also for one that never received anything that was followed.
    pub received: Option<ReceivedRow>,
    /// What the table is about, window by window, the latest last; empty where no windows before are known.
    pub trend: Vec<Option<f64>>,
    /// What is far above what it was in the last minutes.
    pub unusual: Vec<SortKey>,
}

/// The rows of a window, in the order asked for.
#[must_use]
pub fn rows(earlier: &Snapshot, later: &Snapshot, selection: &Selection) -> Vec<Row> {
    let filter = selection.filter.to_lowercase();
    let is_wanted = |sample: &&WorkloadSample| {
        let is_of = |namespace: &String| *namespace == sample.workload.namespace;
        selection.namespace.as_ref().is_none_or(is_of) && matches(&sample.workload, &filter)
    };
    let rows = of_samples(earlier, later, later.workloads.iter().filter(is_wanted));
    let mut rows: Vec<Row> = rows.filter(|row| selection.all || !selection.topic.is_idle(row)).collect();
    rows.sort_by(|a, b| sort::compare(a, b, selection));
    rows
}

/// The rows of all workloads, in no order.
pub(super) fn each<'a>(earlier: &'a Snapshot, later: &'a Snapshot) -> impl Iterator<Item = Row> + 'a {
    of_samples(earlier, later, later.workloads.iter())
}

fn of_samples<'a>(
    earlier: &'a Snapshot,
    later: &Snapshot,
    samples: impl Iterator<Item = &'a WorkloadSample> + 'a,
) -> impl Iterator<Item = Row> + 'a {
    let window = Window(later.window_since(earlier).as_secs_f64());
    let before = by_workload(earlier);
    samples.map(move |sample| row(before.get(&sample.workload).copied(), sample, window))
}

fn by_workload(snapshot: &Snapshot) -> HashMap<&Workload, &WorkloadSample> {
    snapshot.workloads.iter().map(|sample| (&sample.workload, sample)).collect()
}

impl Row {
    /// All context switches per second.
    #[must_use]
    pub fn switch_rate(&self) -> Option<f64> {
        Some(self.voluntary_rate? + self.involuntary_rate?)
    }

    /// What it asked of all block devices together.
    #[must_use]
    pub fn requests(&self) -> Option<&OperationRow> {
        self.disk.as_ref().map(|disk| &disk.all)
    }

    /// What its connections did.
    #[must_use]
    pub fn tcp(&self) -> Option<&TcpRow> {
        self.network.as_ref()?.tcp.as_ref()
    }

    /// What it did of a kind of storage operation; `None` where that domain is off.
    #[must_use]
    pub fn operation(&self, operation: Operation) -> Option<&OperationRow> {
        self.storage.as_ref().map(|storage| storage.of(operation))
    }
}

/// `filter` in lower case.
fn matches(workload: &Workload, filter: &str) -> bool {
    [&workload.namespace, &workload.pod, &workload.container]
        .iter()
        .any(|name| name.to_lowercase().contains(filter))
}

/// The length of a window in seconds.
#[derive(Clone, Copy)]
struct Window(f64);

impl Window {
    fn rate(self, amount: f64) -> Option<f64> {
        (self.0 > 0.0).then(|| amount / self.0)
    }

    fn seconds_rate(self, nanoseconds: u64) -> Option<f64> {
        self.rate(nanoseconds as f64 / 1e9)
    }
}

fn row(earlier: Option<&WorkloadSample>, later: &WorkloadSample, window: Window) -> Row {
    let sched = sched_since(earlier, later);
    let throttling = throttling_since(earlier, later);
    let busy_ns = sched.as_ref().map(|sched| sched.on_cpu_ns).or_else(|| usage_since(earlier, later));
    let wait = sched.as_ref().map(|sched| &sched.wait);
    Row {
        workload: later.workload.clone(),
        kind: later.kind,
        cpu_cores: busy_ns.and_then(|ns| window.seconds_rate(ns)),
        quota_cores: later.cpu.as_ref().and_then(|cpu| cpu.quota_cores),
        throttled_ratio: throttling.map(|t| t.throttled_periods as f64 / t.periods as f64),
        throttled_rate: throttling.and_then(|t| window.seconds_rate(t.throttled_ns)),
        wait_p50: wait.and_then(|wait| wait.quantile(0.5)),
        wait_p99: wait.and_then(|wait| wait.quantile(0.99)),
        wait_max: wait.and_then(HistogramSample::max_bound),
        waiting: wait.and_then(|wait| window.seconds_rate(wait.sum_ns)),
        voluntary_rate: sched.as_ref().and_then(|sched| window.rate(sched.voluntary_switches as f64)),
        involuntary_rate: sched.as_ref().and_then(|sched| window.rate(sched.involuntary_switches as f64)),
        storage: storage::storage(earlier, later, window),
        disk: disk::disk(earlier, later, window),
        network: network::network(earlier, later, window),
        received: received::received(earlier, later, window),
        trend: Vec::new(),
        unusual: Vec::new(),
    }
}

fn sched_since(earlier: Option<&WorkloadSample>, later: &WorkloadSample) -> Option<SchedSample> {
    let earlier = earlier.and_then(|sample| sample.sched.as_ref());
    later.sched.as_ref().map(|later| SchedSample::in_window(earlier, later))
}

/// The kernel counts these since the cgroup was made: a cgroup that is new counts from zero, but of one that was
/// there and could not be read nothing is known.
fn cpu_before(earlier: Option<&WorkloadSample>) -> Option<CpuSample> {
    match earlier {
        None => Some(CpuSample {
            usage_ns: Some(0),
            throttling: Some(Throttling::default()),
            ..CpuSample::default()
        }),
        Some(sample) => sample.cpu.clone(),
    }
}

fn usage_since(earlier: Option<&WorkloadSample>, later: &WorkloadSample) -> Option<u64> {
    let before = cpu_before(earlier)?.usage_ns?;
    let now = later.cpu.as_ref()?.usage_ns?;
    Some(now.checked_sub(before).unwrap_or(now))
}

/// `None` unless a period of a quota elapsed.
fn throttling_since(earlier: Option<&WorkloadSample>, later: &WorkloadSample) -> Option<Throttling> {
    let before = cpu_before(earlier)?.throttling?;
    let now = later.cpu.as_ref()?.throttling?;
    let since = || {
        Some(Throttling {
            periods: now.periods.checked_sub(before.periods)?,
            throttled_periods: now.throttled_periods.checked_sub(before.throttled_periods)?,
            throttled_ns: now.throttled_ns.checked_sub(before.throttled_ns)?,
        })
    };
    since().or(Some(now)).filter(|t| t.periods > 0)
}

#[cfg(test)]
mod tests;
