//! fio, which counts and measures its own operations.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::counts::Counts;
use super::support::cgroup::Cgroup;
use super::support::process::inside;

/// fio's report of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) calls: u64,
    pub(crate) bytes: u64,
    pub(crate) fsyncs: u64,
    pub(crate) p50_ns: u64,
    pub(crate) p99_ns: u64,
    pub(crate) fsync_p50_ns: u64,
    pub(crate) fsync_p99_ns: u64,
}

/// One thread that reads or writes a file from end to end, and syncs every eighth write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job<'a> {
    pub(crate) engine: &'a str,
    pub(crate) direction: &'a str,
    pub(crate) size: &'a str,
    /// More options, such as `--direct=1`, which may override the others.
    pub(crate) options: &'a [&'a str],
}

impl Job<'_> {
    pub(crate) fn run(&self, cgroup: &Cgroup, directory: &Path) -> Report {
        let mut fio = Command::new("fio");
        fio.arg(format!("--ioengine={}", self.engine));
        fio.arg(format!("--rw={}", self.direction)).arg(format!("--size={}", self.size)).arg("--fsync=8");
        fio.arg(format!("--directory={}", directory.display())).args(self.options);
        report(fio, cgroup, self.direction)
    }
}

/// Runs one call after the other.
pub(crate) fn run(cgroup: &Cgroup, directory: &Path, direction: &str, size: &str) -> Report {
    Job { engine: "psync", direction, size, options: &[] }.run(cgroup, directory)
}

/// Reads a device this many times, with direct I/O or from outside of the page cache.
pub(crate) fn run_on_device(cgroup: &Cgroup, device: &Path, engine: &str, times: u64) -> Report {
    let mut fio = Command::new("fio");
    let direct = u8::from(engine != "mmap");
    fio.arg(format!("--ioengine={engine}")).arg(format!("--direct={direct}"));
    fio.args(["--rw=randread", "--size=64m"]);
    fio.arg(format!("--number_ios={times}")).arg(format!("--filename={}", device.display()));
    report(fio, cgroup, "read")
}

/// Loads the program and its libraries into memory: on a machine where fio has not run yet, they would come
/// from a slow device too.
pub(crate) fn warm_up() {
    let status =
        Command::new("fio").arg("--version").stdout(Stdio::null()).status().expect("fio can be started");
    assert!(status.success(), "fio: {status}");
}

fn report(mut fio: Command, cgroup: &Cgroup, direction: &str) -> Report {
    fio.args(["--name=job", "--bs=4k", "--thread", "--output-format=json"]).stdin(Stdio::null());
    inside(&mut fio, cgroup);
    let output = fio.output().expect("fio can be started");
    assert!(output.status.success(), "fio: {}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).expect("fio writes JSON");
    let job = &document["jobs"][0];
    let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("no number in fio's report: {job}"));
    let (work, sync) = (&job[direction.trim_start_matches("rand")], &job["sync"]);
    let percentile = |latency: &Value, name: &str| latency["percentile"][name].as_u64().unwrap_or(0);
    Report {
        calls: number(&work["total_ios"]),
        bytes: number(&work["io_bytes"]),
        fsyncs: number(&sync["total_ios"]),
        p50_ns: percentile(&work["clat_ns"], "50.000000"),
        p99_ns: percentile(&work["clat_ns"], "99.000000"),
        fsync_p50_ns: percentile(&sync["lat_ns"], "50.000000"),
        fsync_p99_ns: percentile(&sync["lat_ns"], "99.000000"),
    }
}

impl Report {
    /// The same report from an agent's counts.
    pub(crate) fn of_counts(counts: &Counts, direction: &str) -> Self {
        let writes = direction.ends_with("write");
        Self {
            calls: if writes { counts.write.calls } else { counts.read.calls },
            bytes: if writes { counts.bytes_written } else { counts.bytes_read },
            fsyncs: counts.fsync.calls,
            ..Self::default()
        }
    }

    /// The calls and bytes beyond those of another run.
    pub(crate) fn less(&self, other: &Self) -> Self {
        Self {
            calls: self.calls - other.calls,
            bytes: self.bytes - other.bytes,
            fsyncs: self.fsyncs - other.fsyncs,
            ..Self::default()
        }
    }
}
