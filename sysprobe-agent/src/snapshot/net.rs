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

impl TrafficSample {
    pub fn add(&mut self, other: &Self) {
        self.received_bytes += other.received_bytes;
        self.received_packets += other.received_packets;
        self.sent_bytes += other.sent_bytes;
        self.sent_packets += other.sent_packets;
    }

    /// `None` if a total went backwards.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Option<Self> {
        Some(Self {
            received_bytes: self.received_bytes.checked_sub(earlier.received_bytes)?,
            received_packets: self.received_packets.checked_sub(earlier.received_packets)?,
            sent_bytes: self.sent_bytes.checked_sub(earlier.sent_bytes)?,
            sent_packets: self.sent_packets.checked_sub(earlier.sent_packets)?,
        })
    }
}
