//! What the JSON form of `net` has of a workload.

use schemars::JsonSchema;
use serde::Serialize;

use super::WhoDocument;
use crate::top::rows::Row;

/// One workload in the window of `net`. `null` where a domain is off or a number does not apply.
#[derive(Debug, JsonSchema, Serialize)]
pub struct NetworkDocument<'a> {
    #[serde(flatten)]
    pub who: WhoDocument<'a>,
    /// Payload of all protocols.
    pub received_bytes_per_second: Option<f64>,
    /// Payload of all protocols.
    pub sent_bytes_per_second: Option<f64>,
    /// Packets that the kernel dropped.
    pub drops_per_second: Option<f64>,
    /// Segments of TCP that were sent for the first time.
    pub tcp_sent_segments_per_second: Option<f64>,
    /// Segments that were sent again divided by those; `null` without any.
    pub tcp_retransmitted_ratio: Option<f64>,
    /// A quantile of round-trip times as the kernel smooths them (`srtt_us`), wrong by at most 9.1 %; `null`
    /// without any in the window.
    pub tcp_srtt_p50_seconds: Option<f64>,
    /// As `tcp_srtt_p50_seconds`.
    pub tcp_srtt_p99_seconds: Option<f64>,
    /// Of connections made: from the first segment to the answer.
    pub tcp_connect_p99_seconds: Option<f64>,
    /// Connections that could not be made.
    pub tcp_connect_failures_per_second: Option<f64>,
    /// Sent and received.
    pub tcp_resets_per_second: Option<f64>,
    /// By listening sockets.
    pub tcp_accept_drops_per_second: Option<f64>,
    /// At the end of the window; `null` where sockets are not counted, or there are none.
    pub tcp_established_sockets: Option<u64>,
    /// How full the fullest accept queue is, from 0 to 1.
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
