//! What the JSON form of `top --view latency` has of a workload.

use schemars::JsonSchema;
use serde::Serialize;
use sysprobe_common::vfs::Operation;

use super::WhoDocument;
use crate::{show::format, top::rows::Row};

/// One workload in the window. Quantiles are wrong by at most 9.1 %; `null` where a domain is off, or nothing
/// was measured.
#[derive(Debug, JsonSchema, Serialize)]
pub struct LatencyDocument<'a> {
    #[serde(flatten)]
    pub who: WhoDocument<'a>,
    /// What was followed from the network device to its reader.
    pub received_per_second: Option<f64>,
    /// From the network device to its reader.
    pub received_p50_seconds: Option<f64>,
    /// From the network device to its reader.
    pub received_p99_seconds: Option<f64>,
    /// Nothing was read later, unless `received_above_range`.
    pub received_max_seconds: Option<f64>,
    /// Whether something was read later than the histogram reaches (32 s).
    pub received_above_range: bool,
    /// For a CPU.
    pub wait_p99_seconds: Option<f64>,
    pub read_p99_seconds: Option<f64>,
    pub write_p99_seconds: Option<f64>,
    pub fsync_p99_seconds: Option<f64>,
    /// Of requests to block devices.
    pub disk_p99_seconds: Option<f64>,
    /// Round-trip times as the kernel smooths them (`srtt_us`).
    pub tcp_srtt_p99_seconds: Option<f64>,
    /// Of connections made: from the first segment to the answer.
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
