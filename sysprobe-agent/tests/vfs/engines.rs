//! fio with I/O engines other than plain read and write system calls.

use std::fs;

use sysprobe_agent::probe::AttachMode;

use super::ROOM;
use super::counts::of_workload;
use super::fio::{Job, Report};
use super::support::attach_modes::{Watcher, kernel, watchers};
use super::support::cgroup::Cgroup;
use super::support::figure;
use super::support::storage::{Kind, Storage};
use super::support::totals::workload;

/// fio's work without its start and end, which are the same in both runs: its own report, and the counts of
/// each attach mode.
fn beyond<'a>(
    watchers: &'a [Watcher],
    storage: &Storage,
    job: &Job,
    name: &str,
) -> (Report, Vec<(&'a Watcher, Report)>) {
    let [(small, seen_small), (large, seen_large)] = ["2m", "4m"].map(|size| {
        let cgroup = Cgroup::new(&format!("engine-{name}-{size}"));
        let report = Job { size, ..*job }.run(&cgroup, storage.path());
        let seen = watchers.iter().map(|watcher| seen(watcher, &cgroup, job));
        (report, seen.collect::<Vec<_>>())
    });
    let less = seen_large.iter().zip(&seen_small).map(|(large, small)| large.less(small));
    (large.less(&small), watchers.iter().zip(less).collect())
}

/// Mapped files are read by page faults, which have no bytes.
fn seen(watcher: &Watcher, cgroup: &Cgroup, job: &Job) -> Report {
    let snapshot = watcher.agent.snapshot();
    let vfs = workload(&snapshot, &cgroup.name).and_then(|workload| workload.vfs.as_ref());
    let report = Report::of_counts(&of_workload(&snapshot, &cgroup.name), job.direction);
    if job.engine == "mmap" {
        Report { calls: vfs.map_or(0, |vfs| vfs.fault.latency.count()), ..report }
    } else {
        report
    }
}

/// Whether an attach mode can see an engine's reads and writes.
pub(crate) fn sees(mode: AttachMode, engine: &str) -> bool {
    match engine {
        "libaio" | "mmap" => mode.hooks_functions(),
        "io_uring" => kernel() >= (6, 0),
        _ => true,
    }
}

/// The number of syncs that an attach mode sees. With `libaio`, fio makes the system call itself.
fn synchronisations(watcher: &Watcher, engine: &str, theirs: u64) -> u64 {
    if engine == "libaio" || watcher.mode.hooks_functions() || sees(watcher.mode, engine) {
        theirs
    } else {
        0
    }
}

#[test]
fn fio_counts_the_same_asynchronous_readings_writings_and_synchronisations() {
    let watchers = watchers("vfs");
    let storage = Storage::of(Kind::Ext4, ROOM);
    // The files to read exist already: fio has written them.
    for direction in ["write", "read"] {
        for (engine, direct) in [("libaio", "1"), ("io_uring", "0"), ("io_uring", "1")] {
            // One at a time: if several syncs wait, a kretprobe may miss some.
            let options = ["--iodepth=1", &format!("--direct={direct}")];
            let job = Job { engine, direction, size: "", options: &options };
            let name = format!("{engine}-{direct}-{direction}");
            assert_equal(&watchers, &storage, &job, &name);
        }
    }
}

/// The flush of a synchronous write is a part of the write, even if a kernel thread does it.
#[test]
fn fio_synchronous_writings_are_writings_alone() {
    let watchers = watchers("vfs");
    let kernels = |watcher: &Watcher| of_workload(&watcher.agent.snapshot(), "kernel").fsync.calls;
    for kind in [Kind::Ext4, Kind::Xfs] {
        let storage = Storage::of(kind, ROOM);
        for (engine, direct) in [("libaio", "0"), ("libaio", "1"), ("io_uring", "0"), ("io_uring", "1")] {
            let options = ["--iodepth=1", "--sync=dsync", "--fsync=0", &format!("--direct={direct}")];
            let job = Job { engine, direction: "write", size: "", options: &options };
            let name = format!("sync-{engine}-{direct}-{}", kind.name());
            // The flushes around the syncs, because other tests have loop devices, too.
            let (flushes, before) = (flushes_of_loops(), watchers.iter().map(kernels).collect::<Vec<_>>());
            let calls = assert_equal(&watchers, &storage, &job, &name).calls;
            let after: Vec<_> = watchers.iter().map(kernels).collect();
            let flushes = flushes_of_loops() - flushes;
            for ((watcher, before), after) in watchers.iter().zip(before).zip(after) {
                let kernels = after - before;
                figure(&format!(
                    "{name} by {}: {kernels} of the kernel, {flushes} flushes",
                    watcher.mode.name()
                ));
                // A loop device syncs its file for a flush. One more sync for each write would stand out.
                assert!(kernels < flushes + calls / 2, "{name} by {}", watcher.mode.name());
            }
        }
    }
}

/// Flushes that all loop devices have completed (`Documentation/block/stat.rst`, since 5.5).
fn flushes_of_loops() -> u64 {
    let devices = fs::read_dir("/sys/block").expect("block devices").flatten();
    let loops = devices.filter(|device| device.file_name().to_string_lossy().starts_with("loop"));
    let flushes = loops.filter_map(|device| {
        let stat = fs::read_to_string(device.path().join("stat")).ok()?;
        stat.split_whitespace().nth(15)?.parse::<u64>().ok()
    });
    flushes.sum()
}

/// Many requests at once, so that completions come in a different order, and in interrupts.
#[test]
fn fio_counts_the_same_of_many_requests_at_once() {
    let watchers = watchers("vfs");
    for kind in Kind::ALL {
        let storage = Storage::of(kind, ROOM);
        for direction in ["randwrite", "randread"] {
            for engine in ["libaio", "io_uring"] {
                // libaio's buffered reads are synchronous.
                let direct = u8::from(matches!(kind, Kind::Ext4 | Kind::Xfs));
                let options = ["--iodepth=32", "--fsync=0", &format!("--direct={direct}")];
                let job = Job { engine, direction, size: "", options: &options };
                assert_equal(&watchers, &storage, &job, &format!("{engine}-{direction}-{}", kind.name()));
            }
        }
    }
}

#[test]
fn fio_reads_what_is_mapped_as_often_as_there_are_major_faults() {
    let watchers = watchers("vfs");
    let job = Job { engine: "mmap", direction: "randread", size: "", options: &["--fsync=0"] };
    // Where fio has not run yet, its program and libraries cause major faults, too.
    Job { size: "2m", ..job }.run(&Cgroup::new("engine-mmap-first"), Storage::of(Kind::Tmpfs, ROOM).path());
    for kind in Kind::ALL {
        let storage = Storage::of(kind, ROOM);
        assert_equal(&watchers, &storage, &job, &format!("mmap-randread-{}", kind.name()));
    }
}

/// Asserts equal counts; returns fio's report.
fn assert_equal(watchers: &[Watcher], storage: &Storage, job: &Job, name: &str) -> Report {
    let (theirs, ours) = beyond(watchers, storage, job, name);
    figure(&format!("{name}: {theirs:?}"));
    assert!(theirs.calls > 0, "{name}: {theirs:?}");
    for (watcher, seen) in ours {
        figure(&format!("{name} by {}: {seen:?}", watcher.mode.name()));
        let fsyncs = synchronisations(watcher, job.engine, theirs.fsyncs);
        let mut expected = if sees(watcher.mode, job.engine) { theirs } else { Report::default() };
        expected.fsyncs = fsyncs;
        if job.engine == "mmap" {
            expected.bytes = 0;
            // A file of a tmpfs is in memory already, so its page faults are minor.
            expected.calls = if storage.kind() == Kind::Tmpfs { 0 } else { expected.calls };
        }
        assert_eq!(seen, expected, "{name} by {}", watcher.mode.name());
    }
    theirs
}
