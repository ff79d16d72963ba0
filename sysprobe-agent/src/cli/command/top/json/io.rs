//! A workload in the JSON form of `io`: an object for each operation that occurred.

use schemars::JsonSchema;
use serde::Serialize;
use sysprobe_common::{block, vfs::Operation};

use super::WhoDocument;
use crate::cli::format;
use crate::cli::rows::{DeviceRow, OperationRow, RequestRow, Row};

/// One workload in the window of `sysprobe io`. An operation that did not occur is absent. If the domain
/// `vfs` is off, all operations are.
#[derive(Debug, JsonSchema, Serialize)]
pub struct StorageDocument<'a> {
    #[serde(flatten)]
    pub who: WhoDocument<'a>,
    /// Reads from storage, including those that the page cache served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read: Option<OperationDocument>,
    /// Writes to storage, including those that only reached the page cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write: Option<OperationDocument>,
    /// Calls of `fsync`, `fdatasync`, `sync_file_range` and `msync`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fsync: Option<OperationDocument>,
    /// Opens that did not create the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open: Option<OperationDocument>,
    /// Calls that create a name: opens that created the file, `mkdir`, `mknod`, `link`, `symlink`, `rename`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub create: Option<OperationDocument>,
    /// Calls that remove a name: `unlink`, `rmdir`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unlink: Option<OperationDocument>,
    /// Major page faults: a task waited until a mapped page was read from storage. Absent also where `vfs`
    /// hooks system calls, which faults are not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<OperationDocument>,
    /// Block devices to which the workload sent requests. Absent if there are none, or if the domain `block`
    /// is off.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<DeviceDocument<'a>>,
}

/// The workload's requests to one block device, by kind. A kind that did not occur is absent.
#[derive(Debug, JsonSchema, Serialize)]
pub struct DeviceDocument<'a> {
    /// Name of the device, as in `/sys/block`.
    pub device: &'a str,
    /// Read requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read: Option<RequestDocument>,
    /// Write requests, including other changes of stored data, such as writing zeroes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write: Option<RequestDocument>,
    /// Discard (TRIM) requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub discard: Option<RequestDocument>,
    /// Flushes of the device's cache that carry no data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flush: Option<RequestDocument>,
}

/// One kind of request to a block device. Latency is the time from the request's start in the device's queue
/// to its completion.
#[derive(Debug, JsonSchema, Serialize)]
pub struct RequestDocument {
    #[serde(flatten)]
    pub requests: OperationDocument,
    /// Seconds per second that requests waited before the device's driver received them: the mean number of
    /// queued requests. Absent for flushes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queued_seconds_per_second: Option<f64>,
}

/// One kind of operation that occurred in the window.
#[derive(Debug, JsonSchema, Serialize)]
pub struct OperationDocument {
    /// Operations or requests per second, including failed ones.
    pub operations_per_second: Option<f64>,
    /// Failed operations or requests per second.
    pub errors_per_second: Option<f64>,
    /// Bytes per second that the operations or requests read, wrote or discarded. Absent for kinds without
    /// bytes, such as `fsync` and `flush`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_second: Option<f64>,
    /// Median latency in seconds. Like all quantiles, it is off by at most 9.1 %.
    pub latency_p50_seconds: Option<f64>,
    /// 99th percentile of the latency, in seconds.
    pub latency_p99_seconds: Option<f64>,
    /// Upper bound of the longest latency, in seconds. If `latency_above_range` is true, at least one was
    /// longer.
    pub latency_max_seconds: f64,
    /// Whether a latency was longer than the histogram's range of 32 s.
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
    /// `None` without any request.
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
    /// `None` without any such operation.
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
