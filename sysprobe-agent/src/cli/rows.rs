//! What each workload did between two snapshots: one row per workload, and one per pod. Pure; `format`
//! renders the numbers.

use sysprobe_common::vfs::Operation;

use crate::snapshot::{HistogramSample, Snapshot, Workload, WorkloadKind, WorkloadSample};

mod disk;
mod network;
mod pods;
mod received;
mod sort;
mod storage;
mod window;

pub use disk::{DeviceRow, DiskRow, RequestRow};
pub use network::{NetworkRow, TcpRow};
pub(crate) use pods::PodRows;
pub use received::ReceivedRow;
pub use sort::SortKey;
pub use storage::{OperationRow, StorageRow};
use window::{Done, Window};

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

/// The rows of all wanted workloads, in any order.
pub(crate) fn of_workloads<'a>(
    earlier: &'a Snapshot,
    later: &'a Snapshot,
    is_wanted: impl Fn(&WorkloadSample) -> bool + 'a,
) -> impl Iterator<Item = Row> + 'a {
    let window = Window::of(earlier, later);
    window::each(earlier, later, is_wanted).map(move |done| row(&done, window))
}

impl Row {
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

/// The row of what a workload or pod did in a window.
fn row(done: &Done, window: Window) -> Row {
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
        workload: done.workload.clone(),
    }
}

#[cfg(test)]
mod tests;
