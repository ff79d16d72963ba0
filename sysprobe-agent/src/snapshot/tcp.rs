//! TCP in a snapshot.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{HistogramSample, TrafficSample};

/// The counters of one workload's connections, and its sockets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TcpSample {
    pub ipv4: TrafficSample,
    pub ipv6: TrafficSample,
    /// Retransmitted segments, and how many of them were SYNs or SYN-ACKs.
    pub retransmitted_segments: u64,
    pub retransmitted_syns: u64,
    pub out_of_order_segments: u64,
    /// Drops by listening sockets: SYNs, and final ACKs of connections for which there was no room.
    pub accept_drops: u64,
    /// Connections for which an accept queue had no room; stays 0 if functions cannot be hooked.
    pub accept_overflows: u64,
    /// Time in which sending was limited by the peers' receive windows.
    pub window_limited_ns: u64,
    pub resets_sent: u64,
    pub resets_received: u64,
    /// Failed connection attempts, by reason.
    pub connect_failures: BTreeMap<String, u64>,
    pub times: TcpTimes,
    /// A gauge.
    pub sockets: SocketsSample,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpTimes {
    /// Smoothed round-trip times, each connection's once a second while it is read from.
    pub srtt: HistogramSample,
    /// Their mean deviation.
    pub variance: HistogramSample,
    /// From a SYN to its answer.
    pub connect: HistogramSample,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SocketsSample {
    pub by_state: BTreeMap<String, u64>,
    /// Connections that wait to be accepted, and the limit.
    pub accept_queue: u64,
    pub accept_queue_limit: u64,
    /// How full the fullest queue is, from 0 to 1.
    pub accept_queue_fullest: f64,
}

impl TcpSample {
    /// The increase in a window. The agent starts these totals at zero, so for a workload that is new to it
    /// they belong to the window; if one went backwards, all of them count as new. Sockets are those at the
    /// end.
    #[must_use]
    pub fn in_window(earlier: Option<&Self>, later: &Self) -> Self {
        earlier.and_then(|earlier| later.since(earlier)).unwrap_or_else(|| later.clone())
    }

    fn since(&self, earlier: &Self) -> Option<Self> {
        let failures = |(reason, now): (&String, &u64)| {
            let then = earlier.connect_failures.get(reason).copied().unwrap_or_default();
            Some((reason.clone(), now.checked_sub(then)?))
        };
        Some(Self {
            ipv4: self.ipv4.since(&earlier.ipv4)?,
            ipv6: self.ipv6.since(&earlier.ipv6)?,
            retransmitted_segments: self
                .retransmitted_segments
                .checked_sub(earlier.retransmitted_segments)?,
            retransmitted_syns: self.retransmitted_syns.checked_sub(earlier.retransmitted_syns)?,
            out_of_order_segments: self.out_of_order_segments.checked_sub(earlier.out_of_order_segments)?,
            accept_drops: self.accept_drops.checked_sub(earlier.accept_drops)?,
            accept_overflows: self.accept_overflows.checked_sub(earlier.accept_overflows)?,
            window_limited_ns: self.window_limited_ns.checked_sub(earlier.window_limited_ns)?,
            resets_sent: self.resets_sent.checked_sub(earlier.resets_sent)?,
            resets_received: self.resets_received.checked_sub(earlier.resets_received)?,
            connect_failures: self.connect_failures.iter().map(failures).collect::<Option<_>>()?,
            times: self.times.since(&earlier.times),
            sockets: self.sockets.clone(),
        })
    }

    /// Adds another workload's counters and sockets.
    pub fn add(&mut self, other: &Self) {
        self.ipv4.add(&other.ipv4);
        self.ipv6.add(&other.ipv6);
        self.retransmitted_segments += other.retransmitted_segments;
        self.retransmitted_syns += other.retransmitted_syns;
        self.out_of_order_segments += other.out_of_order_segments;
        self.accept_drops += other.accept_drops;
        self.accept_overflows += other.accept_overflows;
        self.window_limited_ns += other.window_limited_ns;
        self.resets_sent += other.resets_sent;
        self.resets_received += other.resets_received;
        for (reason, count) in &other.connect_failures {
            *self.connect_failures.entry(reason.clone()).or_default() += count;
        }
        self.times.add(&other.times);
        self.sockets.add(&other.sockets);
    }
}

impl TcpTimes {
    fn since(&self, earlier: &Self) -> Self {
        Self {
            srtt: self.srtt.since(&earlier.srtt),
            variance: self.variance.since(&earlier.variance),
            connect: self.connect.since(&earlier.connect),
        }
    }

    fn add(&mut self, other: &Self) {
        self.srtt.add(&other.srtt);
        self.variance.add(&other.variance);
        self.connect.add(&other.connect);
    }
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
