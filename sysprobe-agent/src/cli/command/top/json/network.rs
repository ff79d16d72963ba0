//! A workload in the JSON form of `net`.

use schemars::JsonSchema;
use serde::Serialize;

use super::WhoDocument;
use crate::cli::rows::Row;

/// One workload in the window of `sysprobe net`. A number is `None` if its domain is off or it does not
/// apply.
#[derive(Debug, JsonSchema, Serialize)]
pub struct NetworkDocument<'a> {
    #[serde(flatten)]
    pub who: WhoDocument<'a>,
    /// Payload bytes received per second, over all protocols.
    pub received_bytes_per_second: Option<f64>,
    /// Payload bytes sent per second, over all protocols.
    pub sent_bytes_per_second: Option<f64>,
    /// IP packets per second that the kernel dropped. `None` before Linux 5.17, and if the domain `net` is
    /// off.
    pub drops_per_second: Option<f64>,
    /// TCP segments sent per second, without retransmissions.
    pub tcp_sent_segments_per_second: Option<f64>,
    /// Retransmitted TCP segments divided by segments sent for the first time. It can exceed 1. `None` if no
    /// segment was sent.
    pub tcp_retransmitted_ratio: Option<f64>,
    /// Median of the smoothed round-trip times of TCP connections (the kernel's `srtt_us`), in seconds. Like
    /// all quantiles, it is off by at most 9.1 %. `None` without a measurement in the window.
    pub tcp_srtt_p50_seconds: Option<f64>,
    /// 99th percentile of the smoothed round-trip times of TCP connections, in seconds. `None` without a
    /// measurement in the window.
    pub tcp_srtt_p99_seconds: Option<f64>,
    /// 99th percentile of the time from the first SYN of an outgoing TCP connection until it was established,
    /// in seconds. `None` if none was established in the window.
    pub tcp_connect_p99_seconds: Option<f64>,
    /// Outgoing TCP connections per second that could not be established.
    pub tcp_connect_failures_per_second: Option<f64>,
    /// TCP resets per second, sent and received.
    pub tcp_resets_per_second: Option<f64>,
    /// SYNs and final handshake ACKs per second that listening TCP sockets dropped. `None` if no socket
    /// listens, and where the kernel cannot iterate over all sockets.
    pub tcp_accept_drops_per_second: Option<f64>,
    /// Number of established TCP sockets at the end of the window. `None` if sockets are not counted, or the
    /// workload has no TCP socket.
    pub tcp_established_sockets: Option<u64>,
    /// How full the fullest accept queue is at the end of the window, from 0 to 1. `None` without a listening
    /// TCP socket.
    pub tcp_accept_queue_fullest: Option<f64>,
}

impl<'a> NetworkDocument<'a> {
    pub(super) fn new(row: &'a Row) -> Self {
        let network = row.network.unwrap_or_default();
        let tcp = network.tcp.unwrap_or_default();
        Self {
            who: WhoDocument::new(row),
            received_bytes_per_second: network.received_rate,
            sent_bytes_per_second: network.sent_rate,
            drops_per_second: network.drop_rate,
            tcp_sent_segments_per_second: tcp.segment_rate,
            tcp_retransmitted_ratio: tcp.retransmitted_ratio,
            tcp_srtt_p50_seconds: tcp.srtt_p50,
            tcp_srtt_p99_seconds: tcp.srtt_p99,
            tcp_connect_p99_seconds: tcp.connect_p99,
            tcp_connect_failures_per_second: tcp.failure_rate,
            tcp_resets_per_second: tcp.reset_rate,
            tcp_accept_drops_per_second: tcp.accept_drop_rate,
            tcp_established_sockets: tcp.established,
            tcp_accept_queue_fullest: tcp.accept_queue,
        }
    }
}
