//! The kernel's counters of the whole machine, only on request. All numbers except gauges are totals since
//! boot.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A part is empty if its file cannot be read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeSample {
    /// When they were read, as `Snapshot::monotonic_ns`.
    pub monotonic_ns: u64,
    /// Number of online CPUs.
    pub cpus: u64,
    pub cpu: CpuTimes,
    pub memory: NodeMemory,
    /// Whole disks, by their names in `/sys/block`.
    pub disks: BTreeMap<String, DiskTimes>,
    /// Network devices, by name.
    pub links: BTreeMap<String, LinkCounts>,
    /// Packets that were dropped because a CPU's backlog queue was full.
    pub backlog_drops: u64,
}

/// Time of all CPUs together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CpuTimes {
    pub busy_ns: u64,
    pub idle_ns: u64,
    /// Time in which the hypervisor ran something else.
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
    /// Time with at least one request in flight.
    pub busy_ns: u64,
    /// Time of all requests together, added when they end.
    pub requests_ns: u64,
    /// A gauge.
    pub requests_in_flight: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LinkCounts {
    pub received_bytes: u64,
    pub sent_bytes: u64,
    pub errors: u64,
    pub drops: u64,
    /// Speed in each direction; `None` if the device does not report it.
    pub bits_per_second: Option<u64>,
}
