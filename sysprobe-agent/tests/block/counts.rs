//! The agent's counts of the requests to one device.

use sysprobe_agent::snapshot::{RequestSample, Snapshot, WorkloadSample};
use sysprobe_common::block::Operation;

use super::disk::DiskStats;
use super::support::totals::workload;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) requests: u64,
    pub(crate) errors: u64,
    pub(crate) bytes: u64,
    pub(crate) took_ns: u64,
    pub(crate) queued_ns: u64,
}

/// Counts by operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts([Count; Operation::COUNT]);

impl Counts {
    pub(crate) const fn of(&self, operation: Operation) -> &Count {
        &self.0[operation as usize]
    }

    /// The sum over all workloads.
    pub(crate) fn of_device(snapshot: &Snapshot, device: &str) -> Self {
        snapshot.workloads.iter().map(|row| of_row(row, device)).fold(Self::default(), Self::plus)
    }

    pub(crate) fn of_workload(snapshot: &Snapshot, name: &str, device: &str) -> Self {
        workload(snapshot, name).map_or_else(Self::default, |row| of_row(row, device))
    }

    fn combine(self, other: Self, with: fn(u64, u64) -> u64) -> Self {
        let mut all = self;
        for (own, other) in all.0.iter_mut().zip(other.0) {
            *own = Count {
                requests: with(own.requests, other.requests),
                errors: with(own.errors, other.errors),
                bytes: with(own.bytes, other.bytes),
                took_ns: with(own.took_ns, other.took_ns),
                queued_ns: with(own.queued_ns, other.queued_ns),
            };
        }
        all
    }

    fn plus(self, other: Self) -> Self {
        self.combine(other, |own, other| own + other)
    }

    pub(crate) fn since(self, earlier: Self) -> Self {
        self.combine(earlier, |own, other| own - other)
    }

    /// The counts in the kernel's terms, in which a flush is a write.
    pub(crate) const fn as_statistics(&self) -> DiskStats {
        let (read, write) = (self.of(Operation::Read), self.of(Operation::Write));
        let (discard, flush) = (self.of(Operation::Discard), self.of(Operation::Flush));
        DiskStats {
            reads: read.requests,
            sectors_read: read.bytes / 512,
            read_ms: read.took_ns / 1_000_000,
            writes: write.requests + flush.requests,
            sectors_written: write.bytes / 512,
            write_ms: (write.took_ns + flush.took_ns) / 1_000_000,
            in_flight: 0,
            discards: discard.requests,
            sectors_discarded: discard.bytes / 512,
            discard_ms: discard.took_ns / 1_000_000,
        }
    }
}

fn of_row(row: &WorkloadSample, device: &str) -> Counts {
    let sample = row.block.as_ref().and_then(|block| block.devices.get(device));
    let count = |of: &RequestSample| Count {
        requests: of.requests.latency.count(),
        errors: of.requests.errors,
        bytes: of.requests.bytes,
        took_ns: of.requests.latency.sum_ns,
        queued_ns: of.queued_ns,
    };
    sample.map_or_else(Counts::default, |sample| {
        Counts(Operation::ALL.map(|operation| count(sample.of(operation))))
    })
}
