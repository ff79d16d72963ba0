//! The rows of a table: the difference of two snapshots, one row per workload, selected and sorted. Pure;
//! `format` renders the numbers.

use std::collections::HashSet;

use sysprobe_common::vfs::Operation;

use super::views::View;
use crate::show::scope::Scope;
use crate::snapshot::{HistogramSample, Snapshot, Workload, WorkloadKind};

mod disk;
mod network;
mod pods;
mod received;
mod sort;
mod storage;
mod window;

pub use disk::{DeviceRow, DiskRow, RequestRow};
pub use network::{NetworkRow, TcpRow};
pub use received::ReceivedRow;
pub use sort::SortKey;
pub use storage::{OperationRow, StorageRow};
use window::{Done, Window};

/// Which rows to show, in which order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// The table that shows them, which decides what counts as idle.
    pub view: View,
    pub sort: SortKey,
    pub reverse: bool,
    /// The pods to show; workloads outside of pods are shown only without a restriction.
    pub scope: Scope,
    /// A part of a namespace, pod or container, ignoring case; empty matches everything.
    pub filter: String,
    /// Whether to show idle workloads.
    pub all: bool,
    /// Whether a pod has one row, instead of one per container.
    pub pods: bool,
    /// The pods whose containers are shown below them.
    pub expanded: HashSet<Workload>,
}

/// One workload, or a whole pod, in one window. A number is `None` if its domain is off or if it does not
/// apply; latencies also without waits.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub workload: Workload,
    pub kind: WorkloadKind,
    /// CPUs in use, on average: from the scheduler if it is measured, else from the cgroup's own counter.
    pub cpu_cores: Option<f64>,
    pub quota_cores: Option<f64>,
    /// The share of periods that ended in throttling, for a pod that of its most throttled part; `None` if no
    /// period of a quota elapsed.
    pub throttled_ratio: Option<f64>,
    /// Seconds throttled per second; the kernel sums over CPUs, so it can exceed one.
    pub throttled_rate: Option<f64>,
    pub wait_p50: Option<f64>,
    pub wait_p99: Option<f64>,
    /// The upper bound of the longest wait's bucket; infinite above the histogram's range.
    pub wait_max: Option<f64>,
    /// Seconds waited per second: the mean number of tasks that waited for a CPU.
    pub waiting: Option<f64>,
    pub voluntary_rate: Option<f64>,
    pub involuntary_rate: Option<f64>,
    pub storage: Option<StorageRow>,
    /// Also `None` if it never made a request to a device.
    pub disk: Option<DiskRow>,
    /// Also `None` if it never used the network.
    pub network: Option<NetworkRow>,
    /// Also `None` if it never received data that was followed.
    pub received: Option<ReceivedRow>,
    /// The table's main number, window by window, the latest last; empty without earlier windows.
    pub trend: Vec<Option<f64>>,
    /// Numbers that are far above those of the last minutes.
    pub unusual: Vec<SortKey>,
}

/// The rows of a window, in the requested order.
#[must_use]
pub fn rows(earlier: &Snapshot, later: &Snapshot, selection: &Selection) -> Vec<Row> {
    let window = Window::of(earlier, later);
    let is_shown = |row: &Row| selection.all || !selection.view.is_idle(row);
    let rows_of = |some: Vec<Done>| {
        let mut rows: Vec<Row> = some.into_iter().map(|done| row(done, window)).filter(is_shown).collect();
        rows.sort_by(|a, b| sort::compare(a, b, selection));
        rows
    };
    let each = window::each(earlier, later, |sample| selection.scope.has(sample));
    let each = wanted(each.collect(), selection);
    if !selection.pods {
        return rows_of(each);
    }
    let (whole, mut parts) = pods::whole(each);
    let below = |pod: Row| {
        let is_expanded = selection.expanded.contains(&pod.workload);
        let parts = if is_expanded { parts.remove(&pod.workload).unwrap_or_default() } else { Vec::new() };
        std::iter::once(pod).chain(rows_of(parts)).collect::<Vec<_>>()
    };
    rows_of(whole).into_iter().flat_map(below).collect()
}

/// The reason why no pod matches the selection, as a sentence; `None` if one does.
pub(super) fn no_pods(snapshot: &Snapshot, selection: &Selection) -> Option<String> {
    if let Err(error) = selection.scope.check(snapshot) {
        return Some(error.to_string());
    }
    let scope = selection.scope.words().filter(|_| total(snapshot, selection) == 0);
    scope.map(|scope| format!("No pod here has {scope}."))
}

/// Number of rows without a filter, including idle workloads.
pub(super) fn total(snapshot: &Snapshot, selection: &Selection) -> usize {
    let in_scope = snapshot.workloads.iter().filter(|sample| selection.scope.has(sample));
    let workloads = in_scope.map(|sample| &sample.workload);
    if !selection.pods {
        return workloads.count();
    }
    let (alone, of_pods): (Vec<_>, Vec<_>) = workloads.partition(|workload| workload.pod.is_empty());
    let pods: HashSet<_> = of_pods.iter().map(|workload| (&workload.namespace, &workload.pod)).collect();
    alone.len() + pods.len()
}

/// Workloads that match the filter. With rows by pod, one matching container includes all containers of its
/// pod.
fn wanted(mut each: Vec<Done>, selection: &Selection) -> Vec<Done> {
    let filter = selection.filter.to_lowercase();
    let matching = each.iter().filter(|done| matches(&done.workload, &filter));
    let pods: HashSet<Workload> = matching.filter_map(Done::pod).filter(|_| selection.pods).collect();
    each.retain(|done| matches(&done.workload, &filter) || done.pod().is_some_and(|pod| pods.contains(&pod)));
    each
}

/// The rows of all wanted workloads and of all wanted pods as a whole, in any order.
pub(super) fn each(
    earlier: &Snapshot,
    later: &Snapshot,
    is_wanted: impl Fn(&Workload) -> bool,
) -> impl Iterator<Item = Row> {
    let window = Window::of(earlier, later);
    let done = window::each(earlier, later, |sample| is_wanted(&sample.workload));
    let (whole, parts) = pods::whole(done.collect());
    let all = whole.into_iter().chain(parts.into_values().flatten());
    all.filter(move |done| is_wanted(&done.workload)).map(move |done| row(done, window))
}

impl Row {
    /// The name as it is shown below its pod, or alone.
    #[must_use]
    pub fn name(&self, selection: &Selection, name_of: fn(&Workload) -> String) -> String {
        let Workload { pod, container, .. } = &self.workload;
        if !selection.pods || pod.is_empty() || container.is_empty() {
            return name_of(&self.workload);
        }
        let alone = Workload { container: container.clone(), ..Workload::default() };
        format!("  {}", name_of(&alone))
    }

    /// All context switches per second.
    #[must_use]
    pub fn switch_rate(&self) -> Option<f64> {
        Some(self.voluntary_rate? + self.involuntary_rate?)
    }

    /// Its requests to all block devices together.
    #[must_use]
    pub fn requests(&self) -> Option<&OperationRow> {
        self.disk.as_ref().map(|disk| &disk.all)
    }

    /// The numbers of its connections.
    #[must_use]
    pub fn tcp(&self) -> Option<&TcpRow> {
        self.network.as_ref()?.tcp.as_ref()
    }

    /// Its storage operations of one kind; `None` if that domain is off.
    #[must_use]
    pub fn operation(&self, operation: Operation) -> Option<&OperationRow> {
        self.storage.as_ref().map(|storage| storage.of(operation))
    }
}

/// `filter` has to be in lower case.
fn matches(workload: &Workload, filter: &str) -> bool {
    [&workload.namespace, &workload.pod, &workload.container]
        .iter()
        .any(|name| name.to_lowercase().contains(filter))
}

fn row(done: Done, window: Window) -> Row {
    let sched = done.sched.as_ref();
    let busy_ns = sched.map(|sched| sched.on_cpu_ns).or(done.usage_ns);
    let wait = sched.map(|sched| &sched.wait);
    Row {
        kind: done.kind,
        cpu_cores: busy_ns.and_then(|ns| window.seconds_rate(ns)),
        quota_cores: done.quota_cores,
        throttled_ratio: done.throttled_ratio,
        throttled_rate: done.throttled_ns.and_then(|ns| window.seconds_rate(ns)),
        wait_p50: wait.and_then(|wait| wait.quantile(0.5)),
        wait_p99: wait.and_then(|wait| wait.quantile(0.99)),
        wait_max: wait.and_then(HistogramSample::max_bound),
        waiting: wait.and_then(|wait| window.seconds_rate(wait.sum_ns)),
        voluntary_rate: sched.and_then(|sched| window.rate(sched.voluntary_switches as f64)),
        involuntary_rate: sched.and_then(|sched| window.rate(sched.involuntary_switches as f64)),
        storage: done.vfs.as_ref().and_then(|vfs| StorageRow::of_window(vfs, window)),
        disk: done.block.as_ref().map(|block| DiskRow::of_window(block, window)),
        network: done.network.as_ref().map(|network| NetworkRow::of_window(network, window)),
        received: done.rxpath.as_ref().map(|rxpath| ReceivedRow::of_window(rxpath, window)),
        trend: Vec::new(),
        unusual: Vec::new(),
        workload: done.workload,
    }
}

#[cfg(test)]
mod tests;
