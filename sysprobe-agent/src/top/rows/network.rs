//! A row's network: the difference of two samples of the domains `tcp` and `net`, and what sockets there are in the end.

use super::Window;
use crate::snapshot::{HistogramSample, NetSample, TcpSample, TrafficSample, WorkloadSample};

/// The network of one workload in one window. Rates are `None` in a window without length.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NetworkRow {
    /// Payload of all protocols, in bytes per second.
    pub received_rate: Option<f64>,
    pub sent_rate: Option<f64>,
    /// Packets that the kernel dropped, per second.
    pub drop_rate: Option<f64>,
    /// `None` where the domain is off, or the workload never had a connection.
    pub tcp: Option<TcpRow>,
}

/// What its connections did.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TcpRow {
    pub segment_rate: Option<f64>,
    /// Segments that were sent again, of one that was sent for the first time; `None` without any.
    pub retransmitted_ratio: Option<f64>,
    /// Seconds.
    pub srtt_p50: Option<f64>,
    pub srtt_p99: Option<f64>,
    pub connect_p99: Option<f64>,
    /// Connections that could not be made, per second.
    pub failure_rate: Option<f64>,
    /// Resets sent and received, per second.
    pub reset_rate: Option<f64>,
    /// What listening sockets dropped, per second.
    pub accept_drop_rate: Option<f64>,
    /// At the end of the window. `None` where sockets are not counted.
    pub established: Option<u64>,
    /// How full the fullest accept queue is, from 0 to 1.
    pub accept_queue: Option<f64>,
}

/// What is counted in a window.
#[derive(Clone, Copy, Debug, Default)]
struct Amounts {
    traffic: TrafficSample,
    drops: u64,
}

/// `None` where both domains are off, or the workload never had to do with the network.
pub(super) fn network(
    earlier: Option<&WorkloadSample>,
    later: &WorkloadSample,
    window: Window,
) -> Option<NetworkRow> {
    if later.tcp.is_none() && later.net.is_none() {
        return None;
    }
    let before = earlier.map(amounts).unwrap_or_default();
    let all = amounts(later);
    let since = since(before, all).unwrap_or(all);
    Some(NetworkRow {
        received_rate: window.rate(since.traffic.received_bytes as f64),
        sent_rate: window.rate(since.traffic.sent_bytes as f64),
        drop_rate: window.rate(since.drops as f64),
        tcp: later
            .tcp
            .as_ref()
            .map(|tcp| tcp_row(earlier.and_then(|sample| sample.tcp.as_ref()), tcp, window)),
    })
}

fn amounts(sample: &WorkloadSample) -> Amounts {
    let of_tcp = sample.tcp.iter().flat_map(|tcp| [tcp.ipv4, tcp.ipv6]);
    let others = sample
        .net
        .iter()
        .flat_map(|net| net.traffic.values().flat_map(|families| families.values().copied()));
    let traffic = of_tcp.chain(others).fold(TrafficSample::default(), |mut sum, traffic| {
        sum.received_bytes += traffic.received_bytes;
        sum.received_packets += traffic.received_packets;
        sum.sent_bytes += traffic.sent_bytes;
        sum.sent_packets += traffic.sent_packets;
        sum
    });
    Amounts { traffic, drops: sample.net.iter().flat_map(|net: &NetSample| net.drops.values()).sum() }
}

/// The agent starts these totals at zero. `None` if one went backwards: then all are new.
fn since(earlier: Amounts, later: Amounts) -> Option<Amounts> {
    let (then, now) = (earlier.traffic, later.traffic);
    let traffic = TrafficSample {
        received_bytes: now.received_bytes.checked_sub(then.received_bytes)?,
        received_packets: now.received_packets.checked_sub(then.received_packets)?,
        sent_bytes: now.sent_bytes.checked_sub(then.sent_bytes)?,
        sent_packets: now.sent_packets.checked_sub(then.sent_packets)?,
    };
    Some(Amounts { traffic, drops: later.drops.checked_sub(earlier.drops)? })
}

fn tcp_row(earlier: Option<&TcpSample>, later: &TcpSample, window: Window) -> TcpRow {
    let none = TcpSample::default();
    let before = earlier.filter(|earlier| segments(earlier) <= segments(later)).unwrap_or(&none);
    let sent = segments(later) - segments(before);
    let added = |of: fn(&TcpSample) -> u64| of(later).saturating_sub(of(before));
    let quantile = |of: fn(&TcpSample) -> &HistogramSample, q| of(later).since(of(before)).quantile(q);
    let again = added(|tcp| tcp.retransmitted_segments);
    let sockets = &later.sockets;
    TcpRow {
        segment_rate: window.rate(sent as f64),
        retransmitted_ratio: (sent > 0 || again > 0).then(|| again as f64 / sent.max(1) as f64),
        srtt_p50: quantile(|tcp| &tcp.times.srtt, 0.5),
        srtt_p99: quantile(|tcp| &tcp.times.srtt, 0.99),
        connect_p99: quantile(|tcp| &tcp.times.connect, 0.99),
        failure_rate: window.rate(added(|tcp| tcp.connect_failures.values().sum()) as f64),
        reset_rate: window.rate(added(|tcp| tcp.resets_sent + tcp.resets_received) as f64),
        accept_drop_rate: window.rate(added(|tcp| tcp.accept_drops) as f64),
        established: (!sockets.by_state.is_empty())
            .then(|| sockets.by_state.get("established").copied().unwrap_or_default()),
        accept_queue: (sockets.accept_queue_limit > 0).then_some(sockets.accept_queue_fullest),
    }
}

/// Sent for the first time.
fn segments(tcp: &TcpSample) -> u64 {
    tcp.ipv4.sent_packets + tcp.ipv6.sent_packets
}

#[cfg(test)]
mod tests;
