//! The network beside TCP in a snapshot, and what both count.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What one workload's sockets sent and received, and what was dropped of theirs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NetSample {
    /// By protocol, then by family, as in the labels.
    pub traffic: BTreeMap<String, BTreeMap<String, TrafficSample>>,
    /// Packets by the number of the kernel's reason; `Snapshot::drop_reasons` has the names.
    pub drops: BTreeMap<u32, u64>,
}

/// What went through sockets of one protocol and version of IP. Bytes are payload, each byte once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrafficSample {
    pub received_bytes: u64,
    pub received_packets: u64,
    pub sent_bytes: u64,
    /// Without what was sent again.
    pub sent_packets: u64,
}
