//! Requests to block devices.

use sysprobe_common::block::Operation;

use super::{Emit, Kind, Metric, Unit, histograms, seconds};
use crate::snapshot::{BlockSample, RequestSample, Snapshot};

const LABELS: &[&str] = &["namespace", "pod", "container", "device", "operation"];
const REQUESTS: &str = "block_rq_complete; attributed at block_rq_insert, block_rq_issue or block_getrq";

pub(super) static BLOCK: &[Metric] = &[
    Metric {
        name: "sysprobe_block_requests",
        unit: Unit::None,
        kind: Kind::Counter,
        help: "Completed block device requests, including failed ones. A flush is a request without data.",
        labels: LABELS,
        source: REQUESTS,
        emit: |snapshot, emit| each(snapshot, emit, |_, sample| Some(sample.requests.latency.count() as f64)),
    },
    Metric {
        name: "sysprobe_block_errors",
        unit: Unit::None,
        kind: Kind::Counter,
        help: "Block device requests that failed completely or in part.",
        labels: LABELS,
        source: REQUESTS,
        emit: |snapshot, emit| each(snapshot, emit, |_, sample| Some(sample.requests.errors as f64)),
    },
    Metric {
        name: "sysprobe_block",
        unit: Unit::Bytes,
        kind: Kind::Counter,
        help: "Bytes read, written or discarded by block device requests.",
        labels: LABELS,
        source: "nr_bytes of block_rq_complete",
        emit: |snapshot, emit| {
            each(snapshot, emit, |operation, sample| {
                operation.has_bytes().then_some(sample.requests.bytes as f64)
            });
        },
    },
    Metric {
        name: "sysprobe_block_queued",
        unit: Unit::Seconds,
        kind: Kind::Counter,
        help: "Part of the request time before the driver received the request. Flushes, and writes that \
               flush or bypass the device's cache (REQ_PREFLUSH, REQ_FUA), add nothing.",
        labels: LABELS,
        source: "request.start_time_ns to block_rq_issue",
        emit: |snapshot, emit| {
            each(snapshot, emit, |operation, sample| {
                (operation != Operation::Flush).then(|| seconds(sample.queued_ns))
            });
        },
    },
    Metric {
        name: "sysprobe_block_latency",
        unit: Unit::Seconds,
        kind: Kind::Histogram,
        help: "Time from when a request got its place in the device's queue until it completed.",
        labels: LABELS,
        source: "request.start_time_ns to block_rq_complete, as /proc/diskstats",
        emit: |snapshot, emit| {
            histograms(
                snapshot,
                |row, emit| {
                    used(row.block.as_ref(), |device, operation, sample| {
                        let labels = [("device", device), ("operation", operation.name())];
                        emit.histogram(&row.workload, &labels, &sample.requests.latency);
                    });
                },
                |pod, workload, emit| {
                    used(Some(&pod.block), |device, operation, sample| {
                        let labels = [("device", device), ("operation", operation.name())];
                        emit.histogram(workload, &labels, &sample.requests.latency);
                    });
                },
                emit,
            );
        },
    },
];

/// The requests that occurred, with the names of their devices.
fn used(sample: Option<&BlockSample>, mut take: impl FnMut(&str, Operation, &RequestSample)) {
    for (name, device) in sample.into_iter().flat_map(|block| &block.devices) {
        for operation in Operation::ALL {
            let sample = device.of(operation);
            if !sample.is_unused() {
                take(name, operation, sample);
            }
        }
    }
}

fn each(snapshot: &Snapshot, emit: &mut Emit, value: impl Fn(Operation, &RequestSample) -> Option<f64>) {
    for row in &snapshot.workloads {
        used(row.block.as_ref(), |device, operation, sample| {
            if let Some(value) = value(operation, sample) {
                emit.request(&row.workload, [device, operation.name()], value);
            }
        });
    }
}
