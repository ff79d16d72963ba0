//! Network traffic other than TCP in a snapshot, and the counters that TCP has as well.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The traffic and the dropped packets of one workload's sockets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NetSample {
    /// By protocol, then by family, as in the labels.
    pub traffic: BTreeMap<String, BTreeMap<String, TrafficSample>>,
    /// Packets by the number of the kernel's reason; `Snapshot::drop_reasons` has the names.
    pub drops: BTreeMap<u32, u64>,
}

/// The traffic of one protocol and IP version. Bytes are payload, without retransmissions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrafficSample {
    pub received_bytes: u64,
    pub received_packets: u64,
    pub sent_bytes: u64,
    /// Without retransmissions.
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
