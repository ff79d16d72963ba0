//! A row's requests to block devices: the difference of two samples of the `block` domain.

use std::collections::BTreeMap;

use sysprobe_common::block::Operation;

use super::{
    storage::{OperationRow, operation_since, row},
    window::Window,
};
use crate::snapshot::{BlockSample, DeviceSample, OperationSample, RequestSample, WorkloadSample};

/// The requests of one workload in one window.
#[derive(Clone, Debug, PartialEq)]
pub struct DiskRow {
    /// All kinds of requests to all devices.
    pub all: OperationRow,
    /// By name.
    pub devices: Vec<DeviceRow>,
}

/// The requests to one device.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceRow {
    pub name: String,
    operations: [RequestRow; Operation::COUNT],
}

/// One kind of request to one device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RequestRow {
    pub requests: OperationRow,
    /// Seconds per second that requests took: the mean number of requests in flight.
    pub took: Option<f64>,
    /// Seconds per second that requests waited for the driver: the mean number of requests that waited there.
    /// `None` if that kind of request does not wait there.
    pub queued: Option<f64>,
}

impl DeviceRow {
    #[must_use]
    pub const fn of(&self, operation: Operation) -> &RequestRow {
        &self.operations[operation as usize]
    }

    /// Requests of all kinds per second.
    #[must_use]
    pub fn rate(&self) -> Option<f64> {
        self.operations.iter().map(|operation| operation.requests.rate).sum()
    }

    /// Requests of all kinds that failed, per second.
    #[must_use]
    pub fn error_rate(&self) -> Option<f64> {
        self.operations.iter().map(|operation| operation.requests.error_rate).sum()
    }

    /// The mean number of requests in flight.
    #[must_use]
    pub fn in_flight(&self) -> Option<f64> {
        self.operations.iter().map(|operation| operation.took).sum()
    }
}

impl DiskRow {
    pub(super) fn of_window(since: &BlockSample, window: Window) -> Self {
        let mut all = OperationSample::default();
        for device in since.devices.values() {
            for operation in Operation::ALL {
                all.add(&device.of(operation).requests);
            }
        }
        let device = |(name, sample): (&String, &DeviceSample)| DeviceRow {
            name: name.clone(),
            operations: Operation::ALL.map(|operation| request_row(operation, sample.of(operation), window)),
        };
        Self { all: row(&all, true, window), devices: since.devices.iter().map(device).collect() }
    }
}

fn request_row(operation: Operation, since: &RequestSample, window: Window) -> RequestRow {
    RequestRow {
        requests: row(&since.requests, operation.has_bytes(), window),
        took: window.seconds_rate(since.requests.latency.sum_ns),
        queued: window.seconds_rate(since.queued_ns).filter(|_| operation != Operation::Flush),
    }
}

/// Like those of `vfs`, these totals start at zero; for a device that is new, all of them belong to the
/// window. `None` if the domain is off, or if the workload never made a request to a device.
pub(super) fn since(earlier: Option<&WorkloadSample>, later: &WorkloadSample) -> Option<BlockSample> {
    let later = later.block.as_ref()?;
    let Some(earlier) = earlier.and_then(|sample| sample.block.as_ref()) else { return Some(later.clone()) };
    let since = |(name, later): (&String, &DeviceSample)| match earlier.devices.get(name) {
        Some(earlier) => Some((name.clone(), device_since(earlier, later)?)),
        None => Some((name.clone(), later.clone())),
    };
    let devices: Option<BTreeMap<_, _>> = later.devices.iter().map(since).collect();
    Some(devices.map_or_else(|| later.clone(), |devices| BlockSample { devices }))
}

/// `None` if a total went backwards.
fn device_since(earlier: &DeviceSample, later: &DeviceSample) -> Option<DeviceSample> {
    let mut since = DeviceSample::default();
    for operation in Operation::ALL {
        let (earlier, later) = (earlier.of(operation), later.of(operation));
        *since.of_mut(operation) = RequestSample {
            requests: operation_since(&earlier.requests, &later.requests)?,
            queued_ns: later.queued_ns.checked_sub(earlier.queued_ns)?,
        };
    }
    Some(since)
}

#[cfg(test)]
mod tests;
