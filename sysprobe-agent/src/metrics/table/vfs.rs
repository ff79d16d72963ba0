//! Storage operations.

use sysprobe_common::vfs::Operation;

use super::{Emit, Kind, Metric, Unit, histograms};
use crate::snapshot::{OperationSample, Snapshot, VfsSample, Workload};

const LABELS: &[&str] = &["namespace", "pod", "container", "operation"];
const FUNCTIONS: &str = "vfs_read, vfs_write, vfs_fsync_range, do_filp_open (do_file_open since 7.0), \
                         do_mkdirat, do_unlinkat and their siblings (docs/probes.md), or the system calls; \
                         io_uring_submit_req and io_uring_complete; aio_read, aio_write and aio_complete_rw; \
                         filemap_fault if it was a major one";

pub(super) static VFS: &[Metric] = &[
    Metric {
        name: "sysprobe_vfs_operations",
        unit: Unit::None,
        kind: Kind::Counter,
        help: "Calls on files and directories of storage file systems, and on block devices, including \
               failed ones; requests of io_uring and libaio; and major page faults (fault), which read \
               memory-mapped files.",
        labels: LABELS,
        source: FUNCTIONS,
        emit: |snapshot, emit| each(snapshot, emit, |_, sample| Some(sample.latency.count())),
    },
    Metric {
        name: "sysprobe_vfs_errors",
        unit: Unit::None,
        kind: Kind::Counter,
        help: "Failed storage operations (see sysprobe_vfs_operations_total).",
        labels: LABELS,
        source: FUNCTIONS,
        emit: |snapshot, emit| each(snapshot, emit, |_, sample| Some(sample.errors)),
    },
    Metric {
        name: "sysprobe_vfs",
        unit: Unit::Bytes,
        kind: Kind::Counter,
        help: "Bytes read and written, whether in the page cache or on the device.",
        labels: LABELS,
        source: "what the same functions return",
        emit: |snapshot, emit| {
            each(snapshot, emit, |operation, sample| operation.moves_bytes().then_some(sample.bytes));
        },
    },
    Metric {
        name: "sysprobe_vfs_latency",
        unit: Unit::Seconds,
        kind: Kind::Histogram,
        help: "Duration of a call, from entry to return; for io_uring and libaio requests, time from \
               submission to completion.",
        labels: LABELS,
        source: "bpf_ktime_get_ns at entry and return of the same functions, at submission and completion of \
                 the same requests",
        emit: |snapshot, emit| {
            histograms(
                snapshot,
                |row, emit| {
                    for (operation, sample) in used(row.vfs.as_ref()) {
                        let label = [("operation", operation.name())];
                        emit.histogram(&row.workload, &label, &sample.latency);
                    }
                },
                |pod, workload, emit| {
                    for (operation, sample) in used(Some(&pod.vfs)) {
                        let label = [("operation", operation.name())];
                        emit.histogram(workload, &label, &sample.latency);
                    }
                },
                emit,
            );
        },
    },
];

/// The operations that occurred, with their counters.
fn used(sample: Option<&VfsSample>) -> impl Iterator<Item = (Operation, &OperationSample)> {
    let all =
        sample.into_iter().flat_map(|vfs| Operation::ALL.map(|operation| (operation, vfs.of(operation))));
    all.filter(|(_, sample)| !sample.is_unused())
}

fn each(snapshot: &Snapshot, emit: &mut Emit, value: impl Fn(Operation, &OperationSample) -> Option<u64>) {
    for row in &snapshot.workloads {
        for (operation, sample) in used(row.vfs.as_ref()) {
            if let Some(value) = value(operation, sample) {
                let Workload { namespace, pod, container } = &row.workload;
                let labels = [
                    ("namespace", namespace.as_str()),
                    ("pod", pod),
                    ("container", container),
                    ("operation", operation.name()),
                ];
                emit.value(&labels, value as f64);
            }
        }
    }
}
