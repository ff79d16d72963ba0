//! A workload in the JSON form of `top --view latency`.

use schemars::JsonSchema;
use serde::Serialize;
use sysprobe_common::vfs::Operation;

use super::WhoDocument;
use crate::cli::format;
use crate::cli::rows::Row;

/// One workload in the window of `sysprobe top --view latency`. Quantiles are off by at most 9.1 %. A number
/// is `None` if its domain is off or nothing was measured.
#[derive(Debug, JsonSchema, Serialize)]
pub struct LatencyDocument<'a> {
    #[serde(flatten)]
    pub who: WhoDocument<'a>,
    /// Requests read per second, estimated from the sampled ones. A request is data that arrives at an empty
    /// socket.
    pub received_per_second: Option<f64>,
    /// Median time of a request from the network device to its reader, in seconds.
    pub received_p50_seconds: Option<f64>,
    /// 99th percentile of the time of a request from the network device to its reader, in seconds.
    pub received_p99_seconds: Option<f64>,
    /// Upper bound of the longest time of a request from the network device to its reader, in seconds. If
    /// `received_above_range` is true, at least one was longer.
    pub received_max_seconds: Option<f64>,
    /// Whether a request took longer than the histogram's range of 32 s.
    pub received_above_range: bool,
    /// 99th percentile of the waits for a CPU, in seconds.
    pub wait_p99_seconds: Option<f64>,
    /// 99th percentile of the latency of reads from storage, in seconds.
    pub read_p99_seconds: Option<f64>,
    /// 99th percentile of the latency of writes to storage, in seconds.
    pub write_p99_seconds: Option<f64>,
    /// 99th percentile of the latency of `fsync` and related calls, in seconds.
    pub fsync_p99_seconds: Option<f64>,
    /// 99th percentile of the latency of requests to block devices, in seconds.
    pub disk_p99_seconds: Option<f64>,
    /// 99th percentile of the smoothed round-trip times of TCP connections (the kernel's `srtt_us`), in
    /// seconds.
    pub tcp_srtt_p99_seconds: Option<f64>,
    /// 99th percentile of the time from the first SYN of an outgoing TCP connection until it was established,
    /// in seconds.
    pub tcp_connect_p99_seconds: Option<f64>,
}

impl<'a> LatencyDocument<'a> {
    pub(super) fn new(row: &'a Row) -> Self {
        let received = row.received.unwrap_or_default();
        let p99 = |operation| row.operation(operation).and_then(|of| of.p99);
        Self {
            who: WhoDocument::new(row),
            received_per_second: received.rate,
            received_p50_seconds: received.p50,
            received_p99_seconds: received.p99,
            received_max_seconds: received.max.map(format::within_range),
            received_above_range: received.max.is_some_and(f64::is_infinite),
            wait_p99_seconds: row.wait_p99,
            read_p99_seconds: p99(Operation::Read),
            write_p99_seconds: p99(Operation::Write),
            fsync_p99_seconds: p99(Operation::Fsync),
            disk_p99_seconds: row.requests().and_then(|of| of.p99),
            tcp_srtt_p99_seconds: row.tcp().and_then(|tcp| tcp.srtt_p99),
            tcp_connect_p99_seconds: row.tcp().and_then(|tcp| tcp.connect_p99),
        }
    }
}
