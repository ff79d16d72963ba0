//! What the JSON form of `io` has of a workload: an object for each operation that there was.

use schemars::JsonSchema;
use serde::Serialize;
use sysprobe_common::{block, vfs::Operation};

use super::WhoDocument;
use crate::{
    show::format,
    top::rows::{DeviceRow, OperationRow, RequestRow, Row},
};

/// One workload in the window of `io`. An operation that it did not do is left out; while the domain `vfs` is
/// off, all of them are.
#[derive(Debug, JsonSchema, Serialize)]
pub struct StorageDocument<'a> {
    #[serde(flatten)]
    pub who: WhoDocument<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read: Option<OperationDocument>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write: Option<OperationDocument>,
    /// `fsync`, `fdatasync`, `sync_file_range`, `msync`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fsync: Option<OperationDocument>,
    /// Opens that found the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open: Option<OperationDocument>,
    /// Whatever makes a name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub create: Option<OperationDocument>,
    /// Whatever removes one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unlink: Option<OperationDocument>,
    /// Major page faults: what is mapped was read from storage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<OperationDocument>,
    /// The block devices of which it asked something; none while the domain `block` is off.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<DeviceDocument<'a>>,
}

/// The requests to one block device, by kind; a kind that there was not is left out.
#[derive(Debug, JsonSchema, Serialize)]
pub struct DeviceDocument<'a> {
    /// As in `/sys/block`.
    pub device: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read: Option<RequestDocument>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write: Option<RequestDocument>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub discard: Option<RequestDocument>,
    /// Flushes of the device's cache that have no data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flush: Option<RequestDocument>,
}

/// One kind of request; from its beginning in the device's queue to its end.
#[derive(Debug, JsonSchema, Serialize)]
pub struct RequestDocument {
    #[serde(flatten)]
    pub requests: OperationDocument,
    /// Time per second that they waited before the device's driver got them; not of flushes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queued_seconds_per_second: Option<f64>,
}

/// One kind of operation, of which there was at least one in the window.
#[derive(Debug, JsonSchema, Serialize)]
pub struct OperationDocument {
    /// Those that failed included.
    pub operations_per_second: Option<f64>,
    pub errors_per_second: Option<f64>,
    /// Of reads and writes only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_second: Option<f64>,
    /// A quantile, as are all with `_pNN_`, wrong by at most 9.1 %.
    pub latency_p50_seconds: Option<f64>,
    /// As `latency_p50_seconds`.
    pub latency_p99_seconds: Option<f64>,
    /// No operation took longer, unless `latency_above_range`: then at least one did.
    pub latency_max_seconds: f64,
    /// Whether an operation took longer than the histogram reaches (32 s).
    pub latency_above_range: bool,
}

impl<'a> StorageDocument<'a> {
    pub(super) fn new(row: &'a Row) -> Self {
        let of = |operation| row.operation(operation).and_then(OperationDocument::new);
        Self {
            who: WhoDocument::new(row),
            read: of(Operation::Read),
            write: of(Operation::Write),
            fsync: of(Operation::Fsync),
            open: of(Operation::Open),
            create: of(Operation::Create),
            unlink: of(Operation::Unlink),
            fault: of(Operation::Fault),
            devices: row.disk.iter().flat_map(|disk| &disk.devices).filter_map(DeviceDocument::new).collect(),
        }
    }
}

impl<'a> DeviceDocument<'a> {
    /// `None` if there was no request at all.
    fn new(row: &'a DeviceRow) -> Option<Self> {
        let of = |operation| RequestDocument::new(row.of(operation));
        let document = Self {
            device: &row.name,
            read: of(block::Operation::Read),
            write: of(block::Operation::Write),
            discard: of(block::Operation::Discard),
            flush: of(block::Operation::Flush),
        };
        let is_used = [&document.read, &document.write, &document.discard, &document.flush]
            .iter()
            .any(|kind| kind.is_some());
        is_used.then_some(document)
    }
}

impl RequestDocument {
    fn new(row: &RequestRow) -> Option<Self> {
        let requests = OperationDocument::new(&row.requests)?;
        Some(Self { requests, queued_seconds_per_second: row.queued })
    }
}

impl OperationDocument {
    /// `None` if there was no such operation.
    fn new(row: &OperationRow) -> Option<Self> {
        let max = row.max?;
        Some(Self {
            operations_per_second: row.rate,
            errors_per_second: row.error_rate,
            bytes_per_second: row.byte_rate,
            latency_p50_seconds: row.p50,
            latency_p99_seconds: row.p99,
            latency_max_seconds: format::within_range(max),
            latency_above_range: max.is_infinite(),
        })
    }
}

#[cfg(test)]
mod tests;
