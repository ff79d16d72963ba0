//! What the kernel says of the whole machine, only for those who ask. All numbers but the levels are totals
//! since boot.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A part is empty where its file cannot be read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeSample {
    /// When these were read, as `Snapshot::monotonic_ns`.
    pub monotonic_ns: u64,
    /// That are online.
    pub cpus: u64,
    pub cpu: CpuTimes,
    pub memory: NodeMemory,
    /// Whole disks, by their names in `/sys/block`.
    pub disks: BTreeMap<String, DiskTimes>,
    /// Network devices, by name.
    pub links: BTreeMap<String, LinkCounts>,
    /// Packets that were thrown away because a CPU's queue was full.
    pub backlog_drops: u64,
}

/// Of all CPUs together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CpuTimes {
    pub busy_ns: u64,
    pub idle_ns: u64,
    /// In which the hypervisor ran something else.
    pub stolen_ns: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeMemory {
    pub total_bytes: u64,
    pub available_bytes: u64,
    /// Pages.
    pub swapped_in: u64,
    pub swapped_out: u64,
    pub oom_kills: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskTimes {
    /// While there was any request.
    pub busy_ns: u64,
    /// Of all requests together, booked when they end.
    pub requests_ns: u64,
    /// Now.
    pub requests_in_flight: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LinkCounts {
    pub received_bytes: u64,
    pub sent_bytes: u64,
    pub errors: u64,
    pub drops: u64,
    /// In each direction; `None` where the device does not say.
    pub bits_per_second: Option<u64>,
}
