//! What the table shows: the difference of two snapshots, one row per workload, selected and sorted. Pure;
//! how a number looks is `format`'s business.

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

/// Which rows, in which order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Which table they are for: it says what is idle.
    pub view: View,
    pub sort: SortKey,
    pub reverse: bool,
    /// Which pods are shown; what is in no pod only if all are.
    pub scope: Scope,
    /// Part of a namespace, pod or container, whatever its case; empty matches everything.
    pub filter: String,
    /// Whether to keep workloads in which nothing happened.
    pub all: bool,
    /// Whether the containers of a pod have one row together, instead of one each.
    pub pods: bool,
    /// The pods whose containers have rows below them.
    pub expanded: HashSet<Workload>,
}

/// One workload, or a whole pod, in one window. A number is `None` where its domain is off or does not apply,
/// and without waits.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub workload: Workload,
    pub kind: WorkloadKind,
    /// CPUs in use, on average: from the scheduler where it is watched, else from the cgroup's own account.
    pub cpu_cores: Option<f64>,
    pub quota_cores: Option<f64>,
    /// The share of periods that ended in throttling, of a pod that of its most throttled part; `None` when
    /// no period of a quota elapsed.
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

/// Why there is none of the pods that are asked for, in words; `None` if there are some.
pub(super) fn no_pods(snapshot: &Snapshot, selection: &Selection) -> Option<String> {
    if let Err(error) = selection.scope.check(snapshot) {
        return Some(error.to_string());
    }
    let scope = selection.scope.words().filter(|_| total(snapshot, selection) == 0);
    scope.map(|scope| format!("No pod here has {scope}."))
}

/// How many rows there would be without a filter and with those in which nothing happened.
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

/// Those that match the filter. A pod is what it is as a whole: one of its containers brings the others
/// along.
fn wanted(mut each: Vec<Done>, selection: &Selection) -> Vec<Done> {
    let filter = selection.filter.to_lowercase();
    let matching = each.iter().filter(|done| matches(&done.workload, &filter));
    let pods: HashSet<Workload> = matching.filter_map(Done::pod).filter(|_| selection.pods).collect();
    each.retain(|done| matches(&done.workload, &filter) || done.pod().is_some_and(|pod| pods.contains(&pod)));
    each
}

/// The rows of those workloads that are wanted, and of whole pods that are, in no order.
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
    /// As it is shown below its pod, or alone.
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
        storage: done.vfs.as_ref().map(|vfs| StorageRow::of_window(vfs, window)),
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
