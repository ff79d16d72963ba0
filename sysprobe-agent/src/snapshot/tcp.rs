//! TCP in a snapshot.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{HistogramSample, TrafficSample};

/// What one workload's connections did, and what sockets it has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TcpSample {
    pub ipv4: TrafficSample,
    pub ipv6: TrafficSample,
    /// Segments that were sent again, and of those the SYNs and SYN-ACKs.
    pub retransmitted_segments: u64,
    pub retransmitted_syns: u64,
    pub out_of_order_segments: u64,
    /// What listening sockets dropped: SYNs, and final ACKs of connections for which there was no room.
    pub accept_drops: u64,
    /// Connections for which an accept queue had no room; stays 0 where functions cannot be hooked.
    pub accept_overflows: u64,
    /// For how long peers' windows had no room for what there was to send.
    pub window_limited_ns: u64,
    pub resets_sent: u64,
    pub resets_received: u64,
    /// Connections that could not be made, by reason.
    pub connect_failures: BTreeMap<String, u64>,
    pub times: TcpTimes,
    /// At this moment.
    pub sockets: SocketsSample,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpTimes {
    /// Smoothed round-trip times, each connection's once a second while segments arrive.
    pub srtt: HistogramSample,
    /// Their mean deviation.
    pub variance: HistogramSample,
    /// From a SYN to its answer.
    pub connect: HistogramSample,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SocketsSample {
    pub by_state: BTreeMap<String, u64>,
    /// Connections that wait to be accepted, and how many may.
    pub accept_queue: u64,
    pub accept_queue_limit: u64,
    /// How full the fullest queue is, from 0 to 1.
    pub accept_queue_fullest: f64,
}

impl SocketsSample {
    pub fn add(&mut self, other: &Self) {
        for (state, count) in &other.by_state {
            *self.by_state.entry(state.clone()).or_default() += count;
        }
        self.accept_queue += other.accept_queue;
        self.accept_queue_limit += other.accept_queue_limit;
        self.accept_queue_fullest = self.accept_queue_fullest.max(other.accept_queue_fullest);
    }
}
