//! fio, which counts and measures what it does by itself.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use sysprobe_common::hist;

use super::counts::Counts;
use super::support::cgroup::Cgroup;
use super::support::process::inside;

/// What fio says of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    calls: u64,
    bytes: u64,
    fsyncs: u64,
    pub(crate) fsync_p50_ns: u64,
    pub(crate) fsync_p99_ns: u64,
}

/// One thread that reads or writes a file from end to end, and has every eighth write reach the device.
pub(crate) fn run(cgroup: &Cgroup, directory: &Path, direction: &str, size: &str) -> Report {
    let mut fio = Command::new("fio");
    fio.args(["--name=job", "--ioengine=psync", "--bs=4k", "--fsync=8", "--thread", "--output-format=json"]);
    fio.arg(format!("--rw={direction}")).arg(format!("--size={size}"));
    fio.arg(format!("--directory={}", directory.display())).stdin(Stdio::null());
    inside(&mut fio, cgroup);
    let output = fio.output().expect("fio can be started");
    assert!(output.status.success(), "fio: {}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).expect("fio writes JSON");
    let job = &document["jobs"][0];
    let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("no number in fio's report: {job}"));
    let (work, sync) = (&job[direction], &job["sync"]);
    let percentile = |name: &str| sync["lat_ns"]["percentile"][name].as_u64().unwrap_or(0);
    Report {
        calls: number(&work["total_ios"]),
        bytes: number(&work["io_bytes"]),
        fsyncs: number(&sync["total_ios"]),
        fsync_p50_ns: percentile("50.000000"),
        fsync_p99_ns: percentile("99.000000"),
    }
}

impl Report {
    /// The same from an agent's counts.
    pub(crate) fn of_counts(counts: &Counts, direction: &str) -> Self {
        let writes = direction == "write";
        Self {
            calls: if writes { counts.write.calls } else { counts.read.calls },
            bytes: if writes { counts.bytes_written } else { counts.bytes_read },
            fsyncs: counts.fsync.calls,
            fsync_p50_ns: 0,
            fsync_p99_ns: 0,
        }
    }

    /// Calls and bytes beyond another run's.
    pub(crate) const fn less(&self, other: &Self) -> Self {
        Self {
            calls: self.calls - other.calls,
            bytes: self.bytes - other.bytes,
            fsyncs: self.fsyncs - other.fsyncs,
            fsync_p50_ns: 0,
            fsync_p99_ns: 0,
        }
    }
}

/// How many buckets lie between two latencies.
pub(crate) fn buckets_apart(seconds: f64, nanoseconds: u64) -> usize {
    let ours = Duration::from_secs_f64(seconds).as_nanos();
    hist::bucket_of(u64::try_from(ours).expect("centuries")).abs_diff(hist::bucket_of(nanoseconds))
}
