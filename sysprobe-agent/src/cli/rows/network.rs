//! A row's network: the difference of two samples of the domains `tcp` and `net`, and the sockets at the end.

use super::window::{self, Window};
use crate::snapshot::{TcpSample, TrafficSample, WorkloadSample};

/// The network of one workload in one window. Rates are `None` in a window without length.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NetworkRow {
    /// Payload of all protocols, in bytes per second.
    pub received_rate: Option<f64>,
    pub sent_rate: Option<f64>,
    /// Packets that the kernel dropped, per second. `None` also if it does not tell (before Linux 5.17), or
    /// if the domain `net` is off.
    pub drop_rate: Option<f64>,
    /// `None` where the domain is off, or the workload never had a connection.
    pub tcp: Option<TcpRow>,
}

/// The numbers of its connections.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TcpRow {
    pub segment_rate: Option<f64>,
    /// Retransmitted segments, per second.
    pub retransmit_rate: Option<f64>,
    /// Retransmitted segments per segment that was sent for the first time; `None` without any.
    pub retransmitted_ratio: Option<f64>,
    /// Seconds.
    pub srtt_p50: Option<f64>,
    pub srtt_p99: Option<f64>,
    pub connect_p99: Option<f64>,
    /// Failed connection attempts, per second.
    pub failure_rate: Option<f64>,
    /// Resets sent and received, per second.
    pub reset_rate: Option<f64>,
    /// Drops by listening sockets, per second.
    pub accept_drop_rate: Option<f64>,
    /// At the end of the window. `None` if sockets are not counted, or if there are none.
    pub established: Option<u64>,
    /// How full the fullest accept queue is, from 0 to 1.
    pub accept_queue: Option<f64>,
}

/// The counters of a window, and the sockets at its end.
#[derive(Clone, Debug, Default)]
pub(super) struct NetworkDone {
    traffic: TrafficSample,
    drops: u64,
    tcp: Option<TcpSample>,
}

impl NetworkDone {
    /// The agent starts these totals at zero: for a new workload, all of them belong to the window, and a
    /// total that went backwards is new. `None` if both domains are off, or if the workload never used the
    /// network.
    pub(super) fn of(earlier: Option<&WorkloadSample>, later: &WorkloadSample) -> Option<Self> {
        if later.tcp.is_none() && later.net.is_none() {
            return None;
        }
        let (traffic, drops) = totals(later);
        let (before, dropped) = earlier.map(totals).unwrap_or_default();
        let since = traffic.since(&before).zip(drops.checked_sub(dropped));
        let (traffic, drops) = since.unwrap_or((traffic, drops));
        let tcp_before = earlier.and_then(|sample| sample.tcp.as_ref());
        Some(Self {
            traffic,
            drops,
            tcp: later.tcp.as_ref().map(|tcp| TcpSample::in_window(tcp_before, tcp)),
        })
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.traffic.add(&other.traffic);
        self.drops += other.drops;
        window::add(&mut self.tcp, other.tcp.as_ref(), TcpSample::add);
    }
}

/// The traffic of all protocols, and the number of drops.
fn totals(sample: &WorkloadSample) -> (TrafficSample, u64) {
    let of_tcp = sample.tcp.iter().flat_map(|tcp| [&tcp.ipv4, &tcp.ipv6]);
    let others =
        sample.net.iter().flat_map(|net| net.traffic.values().flat_map(|families| families.values()));
    let mut sum = TrafficSample::default();
    of_tcp.chain(others).for_each(|traffic| sum.add(traffic));
    (sum, sample.net.iter().flat_map(|net| net.drops.values()).sum())
}

impl NetworkRow {
    pub(super) fn of_window(done: &NetworkDone, window: Window) -> Self {
        Self {
            received_rate: window.rate(done.traffic.received_bytes as f64),
            sent_rate: window.rate(done.traffic.sent_bytes as f64),
            drop_rate: window.rate(done.drops as f64).filter(|_| window.counts_drops),
            tcp: done.tcp.as_ref().map(|tcp| TcpRow::of_window(tcp, window)),
        }
    }
}

impl TcpRow {
    fn of_window(tcp: &TcpSample, window: Window) -> Self {
        let (sent, again) = (tcp.ipv4.sent_packets + tcp.ipv6.sent_packets, tcp.retransmitted_segments);
        let sockets = &tcp.sockets;
        let listens = sockets.accept_queue_limit > 0;
        Self {
            segment_rate: window.rate(sent as f64),
            retransmit_rate: window.rate(again as f64),
            retransmitted_ratio: (sent > 0 || again > 0).then(|| again as f64 / sent.max(1) as f64),
            srtt_p50: tcp.times.srtt.quantile(0.5),
            srtt_p99: tcp.times.srtt.quantile(0.99),
            connect_p99: tcp.times.connect.quantile(0.99),
            failure_rate: window.rate(tcp.connect_failures.values().sum::<u64>() as f64),
            reset_rate: window.rate((tcp.resets_sent + tcp.resets_received) as f64),
            accept_drop_rate: window
                .rate(tcp.accept_drops as f64)
                .filter(|_| listens || tcp.accept_drops > 0),
            established: (!sockets.by_state.is_empty())
                .then(|| sockets.by_state.get("established").copied().unwrap_or_default()),
            accept_queue: listens.then_some(sockets.accept_queue_fullest),
        }
    }
}

#[cfg(test)]
mod tests;
