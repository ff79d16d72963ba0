//! A row's storage operations: the difference of two samples of the `vfs` domain.

use sysprobe_common::vfs::Operation;

use super::window::Window;
use crate::snapshot::{OperationSample, VfsSample, WorkloadSample};

/// The storage operations of one workload in one window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StorageRow([OperationRow; Operation::COUNT]);

/// One kind of operation or request. Rates are `None` in a window without length, latencies without a call,
/// and all are `None` if this kind is not measured on this kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OperationRow {
    /// Number per second, including those that failed.
    pub rate: Option<f64>,
    pub error_rate: Option<f64>,
    /// Bytes per second; `None` if the operation moves none.
    pub byte_rate: Option<f64>,
    pub p50: Option<f64>,
    pub p99: Option<f64>,
    /// The upper bound of the longest latency's bucket; infinite above the histogram's range.
    pub max: Option<f64>,
}

impl StorageRow {
    /// `None` if operations are not counted now.
    pub(super) fn of_window(since: &VfsSample, window: Window) -> Option<Self> {
        let row = |operation: Operation| match operation {
            Operation::Fault if !window.counts_faults => OperationRow::default(),
            _ => row(since.of(operation), operation.moves_bytes(), window),
        };
        window.counts_operations.then(|| Self(Operation::ALL.map(row)))
    }

    #[must_use]
    pub const fn of(&self, operation: Operation) -> &OperationRow {
        &self.0[operation as usize]
    }

    /// Operations of all measured kinds per second.
    #[must_use]
    pub fn operation_rate(&self) -> Option<f64> {
        self.sum(|operation| operation.rate)
    }

    /// Operations of all measured kinds that failed, per second.
    #[must_use]
    pub fn error_rate(&self) -> Option<f64> {
        self.sum(|operation| operation.error_rate)
    }

    fn sum(&self, rate: impl Fn(&OperationRow) -> Option<f64>) -> Option<f64> {
        self.0.iter().filter_map(rate).reduce(|sum, rate| sum + rate)
    }
}

pub(super) fn row(since: &OperationSample, has_bytes: bool, window: Window) -> OperationRow {
    OperationRow {
        rate: window.rate(since.latency.count() as f64),
        error_rate: window.rate(since.errors as f64),
        byte_rate: window.rate(since.bytes as f64).filter(|_| has_bytes),
        p50: since.latency.quantile(0.5),
        p99: since.latency.quantile(0.99),
        max: since.latency.max_bound(),
    }
}

/// The agent starts these totals at zero, like the scheduler's: for a new workload, all of them belong to the
/// window. If one went backwards, all of them are new.
pub(super) fn since(earlier: Option<&WorkloadSample>, later: &WorkloadSample) -> Option<VfsSample> {
    let later = later.vfs.as_ref()?;
    let Some(earlier) = earlier.and_then(|sample| sample.vfs.as_ref()) else { return Some(later.clone()) };
    let mut since = VfsSample::default();
    for operation in Operation::ALL {
        match operation_since(earlier.of(operation), later.of(operation)) {
            Some(difference) => *since.of_mut(operation) = difference,
            None => return Some(later.clone()),
        }
    }
    Some(since)
}

/// `None` if a total went backwards.
pub(super) fn operation_since(earlier: &OperationSample, later: &OperationSample) -> Option<OperationSample> {
    if later.latency.sum_ns < earlier.latency.sum_ns {
        return None;
    }
    Some(OperationSample {
        latency: later.latency.since(&earlier.latency),
        errors: later.errors.checked_sub(earlier.errors)?,
        bytes: later.bytes.checked_sub(earlier.bytes)?,
    })
}

#[cfg(test)]
mod tests;
