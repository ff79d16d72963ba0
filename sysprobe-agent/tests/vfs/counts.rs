//! Counts of operations and of failures: a test's expectation, and an agent's numbers.

use sysprobe_agent::snapshot::{OperationSample, Snapshot};

use super::support::totals::workload;

/// Calls and how many of them failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) calls: u64,
    pub(crate) errors: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) read: Count,
    pub(crate) write: Count,
    pub(crate) fsync: Count,
    pub(crate) open: Count,
    pub(crate) create: Count,
    pub(crate) unlink: Count,
    pub(crate) bytes_read: u64,
    pub(crate) bytes_written: u64,
}

pub(crate) const fn calls(calls: u64) -> Count {
    Count { calls, errors: 0 }
}

pub(crate) const fn failed(calls: u64) -> Count {
    Count { calls, errors: calls }
}

impl Counts {
    pub(crate) const NONE: Self = Self {
        read: calls(0),
        write: calls(0),
        fsync: calls(0),
        open: calls(0),
        create: calls(0),
        unlink: calls(0),
        bytes_read: 0,
        bytes_written: 0,
    };

    pub(crate) const fn operations(&self) -> u64 {
        let reads_and_writes = self.read.calls + self.write.calls + self.fsync.calls;
        reads_and_writes + self.open.calls + self.create.calls + self.unlink.calls
    }
}

/// The agent's counts for a cgroup.
pub(crate) fn of_workload(snapshot: &Snapshot, name: &str) -> Counts {
    let Some(vfs) = workload(snapshot, name).and_then(|workload| workload.vfs.as_ref()) else {
        return Counts::default();
    };
    let count =
        |operation: &OperationSample| Count { calls: operation.latency.count(), errors: operation.errors };
    Counts {
        read: count(&vfs.read),
        write: count(&vfs.write),
        fsync: count(&vfs.fsync),
        open: count(&vfs.open),
        create: count(&vfs.create),
        unlink: count(&vfs.unlink),
        bytes_read: vfs.read.bytes,
        bytes_written: vfs.write.bytes,
    }
}
