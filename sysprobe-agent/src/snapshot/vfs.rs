//! Operations on files in a snapshot.

use serde::{Deserialize, Serialize};
use sysprobe_common::vfs::Operation;

use super::HistogramSample;

/// The storage operations of one workload. Unused operations are left out of the JSON form.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct VfsSample {
    #[serde(skip_serializing_if = "OperationSample::is_unused")]
    pub read: OperationSample,
    #[serde(skip_serializing_if = "OperationSample::is_unused")]
    pub write: OperationSample,
    #[serde(skip_serializing_if = "OperationSample::is_unused")]
    pub fsync: OperationSample,
    #[serde(skip_serializing_if = "OperationSample::is_unused")]
    pub open: OperationSample,
    #[serde(skip_serializing_if = "OperationSample::is_unused")]
    pub create: OperationSample,
    #[serde(skip_serializing_if = "OperationSample::is_unused")]
    pub unlink: OperationSample,
    #[serde(skip_serializing_if = "OperationSample::is_unused")]
    pub fault: OperationSample,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationSample {
    /// All operations, including those that failed.
    pub latency: HistogramSample,
    pub errors: u64,
    /// Bytes read or written.
    pub bytes: u64,
}

impl VfsSample {
    /// Adds another workload's operations.
    pub fn add(&mut self, other: &Self) {
        for operation in Operation::ALL {
            self.of_mut(operation).add(other.of(operation));
        }
    }

    #[must_use]
    pub const fn of(&self, operation: Operation) -> &OperationSample {
        match operation {
            Operation::Read => &self.read,
            Operation::Write => &self.write,
            Operation::Fsync => &self.fsync,
            Operation::Open => &self.open,
            Operation::Create => &self.create,
            Operation::Unlink => &self.unlink,
            Operation::Fault => &self.fault,
        }
    }

    #[must_use]
    pub const fn of_mut(&mut self, operation: Operation) -> &mut OperationSample {
        match operation {
            Operation::Read => &mut self.read,
            Operation::Write => &mut self.write,
            Operation::Fsync => &mut self.fsync,
            Operation::Open => &mut self.open,
            Operation::Create => &mut self.create,
            Operation::Unlink => &mut self.unlink,
            Operation::Fault => &mut self.fault,
        }
    }
}

impl OperationSample {
    pub fn add(&mut self, other: &Self) {
        self.latency.add(&other.latency);
        self.errors += other.errors;
        self.bytes += other.bytes;
    }

    /// Whether there was no such operation.
    #[must_use]
    pub fn is_unused(&self) -> bool {
        self.latency.count() == 0
    }
}
