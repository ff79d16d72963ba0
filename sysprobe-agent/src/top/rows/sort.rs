//! What rows can be sorted by, and the order that follows. Which of it a table offers is the table's business.

use std::cmp::Ordering;

use clap::ValueEnum;
use sysprobe_common::vfs::Operation;

use super::{Row, Selection};

/// What rows can be sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum SortKey {
    /// Time on CPU.
    #[default]
    Cpu,
    /// Share of the quota's periods in which the workload was throttled.
    Throttled,
    /// Median wait for a CPU.
    P50,
    /// 99th percentile of the wait for a CPU.
    P99,
    /// Longest wait for a CPU.
    Max,
    /// Voluntary and involuntary context switches.
    Switches,
    /// Reads per second.
    Read,
    /// Bytes read per second.
    ReadBytes,
    /// 99th percentile of the length of a read.
    Read99,
    /// Writes per second.
    Write,
    /// Bytes written per second.
    WriteBytes,
    /// 99th percentile of the length of a write.
    Write99,
    /// Calls of fsync and its kin per second.
    Fsync,
    /// Median length of an fsync.
    Fsync50,
    /// 99th percentile of the length of an fsync.
    Fsync99,
    /// Files opened per second.
    Open,
    /// Names made per second.
    Create,
    /// Names removed per second.
    Unlink,
    /// Requests to block devices per second.
    Disk,
    /// Bytes of such requests per second.
    DiskBytes,
    /// 99th percentile of the length of such a request.
    Disk99,
    /// Storage operations that failed per second.
    Errors,
    /// Namespace, pod and container.
    Name,
}

impl Row {
    fn number(&self, key: SortKey) -> Option<f64> {
        match key {
            SortKey::Cpu => self.cpu_cores,
            SortKey::Throttled => self.throttled_ratio,
            SortKey::P50 => self.wait_p50,
            SortKey::P99 => self.wait_p99,
            SortKey::Max => self.wait_max,
            SortKey::Switches => self.switch_rate(),
            SortKey::Read => self.operation(Operation::Read)?.rate,
            SortKey::ReadBytes => self.operation(Operation::Read)?.byte_rate,
            SortKey::Read99 => self.operation(Operation::Read)?.p99,
            SortKey::Write => self.operation(Operation::Write)?.rate,
            SortKey::WriteBytes => self.operation(Operation::Write)?.byte_rate,
            SortKey::Write99 => self.operation(Operation::Write)?.p99,
            SortKey::Fsync => self.operation(Operation::Fsync)?.rate,
            SortKey::Fsync50 => self.operation(Operation::Fsync)?.p50,
            SortKey::Fsync99 => self.operation(Operation::Fsync)?.p99,
            SortKey::Open => self.operation(Operation::Open)?.rate,
            SortKey::Create => self.operation(Operation::Create)?.rate,
            SortKey::Unlink => self.operation(Operation::Unlink)?.rate,
            SortKey::Disk => self.requests()?.rate,
            SortKey::DiskBytes => self.requests()?.byte_rate,
            SortKey::Disk99 => self.requests()?.p99,
            SortKey::Errors => self.storage?.error_rate(),
            SortKey::Name => None,
        }
    }
}

/// Workloads without the number come last in either direction: they are no candidates for the top.
pub(super) fn compare(a: &Row, b: &Row, selection: &Selection) -> Ordering {
    let turn = |order: Ordering| if selection.reverse { order.reverse() } else { order };
    let by_name = a.workload.cmp(&b.workload);
    if selection.sort == SortKey::Name {
        return turn(by_name);
    }
    match (a.number(selection.sort), b.number(selection.sort)) {
        (Some(a), Some(b)) => turn(b.total_cmp(&a)).then(by_name),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => by_name,
    }
}
