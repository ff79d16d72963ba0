//! Requests to block devices in a snapshot.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sysprobe_common::block::Operation;

use super::OperationSample;

/// One workload's requests to block devices, by their names in `/sys/block`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockSample {
    pub devices: BTreeMap<String, DeviceSample>,
}

/// Its requests to one device. Unused operations are left out of the JSON form.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceSample {
    #[serde(skip_serializing_if = "RequestSample::is_unused")]
    pub read: RequestSample,
    #[serde(skip_serializing_if = "RequestSample::is_unused")]
    pub write: RequestSample,
    #[serde(skip_serializing_if = "RequestSample::is_unused")]
    pub discard: RequestSample,
    #[serde(skip_serializing_if = "RequestSample::is_unused")]
    pub flush: RequestSample,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestSample {
    pub requests: OperationSample,
    /// The part of their time that passed before the device's driver got them.
    pub queued_ns: u64,
}

impl BlockSample {
    /// Adds another workload's requests.
    pub fn add(&mut self, other: &Self) {
        for (name, device) in &other.devices {
            let own = self.devices.entry(name.clone()).or_default();
            for operation in Operation::ALL {
                own.of_mut(operation).requests.add(&device.of(operation).requests);
                own.of_mut(operation).queued_ns += device.of(operation).queued_ns;
            }
        }
    }
}

impl DeviceSample {
    #[must_use]
    pub const fn of(&self, operation: Operation) -> &RequestSample {
        match operation {
            Operation::Read => &self.read,
            Operation::Write => &self.write,
            Operation::Discard => &self.discard,
            Operation::Flush => &self.flush,
        }
    }

    #[must_use]
    pub const fn of_mut(&mut self, operation: Operation) -> &mut RequestSample {
        match operation {
            Operation::Read => &mut self.read,
            Operation::Write => &mut self.write,
            Operation::Discard => &mut self.discard,
            Operation::Flush => &mut self.flush,
        }
    }
}

impl RequestSample {
    /// Whether there was no such request.
    #[must_use]
    pub fn is_unused(&self) -> bool {
        self.requests.is_unused()
    }
}
