//! Storage operations of known loads, measured by every attach mode of this kernel at the same time: each
//! must count exactly what the load did.

#[path = "vfs/absent.rs"]
mod absent;
#[path = "vfs/calls.rs"]
mod calls;
#[path = "vfs/counts.rs"]
mod counts;
#[path = "vfs/devices.rs"]
mod devices;
#[path = "vfs/engines.rs"]
mod engines;
#[path = "vfs/fio.rs"]
mod fio;
#[path = "vfs/refused.rs"]
mod refused;
#[path = "vfs/stress.rs"]
mod stress;
mod support;
#[path = "vfs/transfers.rs"]
mod transfers;
#[path = "vfs/waits.rs"]
mod waits;

use std::path::Path;

use support::attach_modes::{Watcher, kernel, watchers};
use support::cgroup::Cgroup;
use support::process::{Load, cpus};
use support::storage::{Kind, Storage};
use support::totals::{lost, missed_runs, workload};
use support::{buckets_apart, figure};
use sysprobe_agent::probe::AttachMode;

use counts::{Counts, of_workload};

const ROOM: u64 = 64 << 20;

/// Runs `body` in a child with a cgroup of its own; returns each attach mode's counts.
fn watch<'a>(watchers: &'a [Watcher], name: &str, body: impl FnOnce()) -> Vec<(&'a Watcher, Counts)> {
    let cgroup = Cgroup::new(name);
    Load::running(&cgroup, &cpus(), body).finish();
    watchers.iter().map(|watcher| (watcher, of_workload(&watcher.agent.snapshot(), &cgroup.name))).collect()
}

fn assert_same(what: &str, seen: &[(&Watcher, Counts)], expected: &Counts) {
    for (watcher, counts) in seen {
        figure(&format!("{what} by {}: {counts:?}", watcher.mode.name()));
    }
    for (watcher, counts) in seen {
        assert_eq!(counts, expected, "{what} by {}", watcher.mode.name());
    }
}

fn assert_nothing_lost(watchers: &[Watcher]) {
    for watcher in watchers {
        let snapshot = watcher.agent.snapshot();
        let (name, missed) = (watcher.mode.name(), missed_runs(&snapshot, "vfs"));
        let ends_missed = lost(&snapshot, "vfs", "end_missed");
        figure(&format!("{ends_missed} ends missed, {missed} runs by {name}"));
        assert!(ends_missed <= missed, "{ends_missed} ends missed, {missed} runs by {name}");
        for reason in ["no_free_slot", "task_storage_full", "unreadable_cgroup"] {
            assert_eq!(lost(&snapshot, "vfs", reason), 0, "{reason} by {name}");
        }
    }
}

#[test]
fn every_way_to_a_file_counts_once_on_every_file_system() {
    let watchers = watchers("vfs");
    for kind in Kind::ALL {
        let storage = Storage::of(kind, ROOM);
        let files = calls::Files::in_directory(storage.path());
        let seen = watch(&watchers, &format!("ways-{}", kind.name()), || calls::every_way(&files));
        assert_same(kind.name(), &seen, &calls::EVERY_WAY);
    }
    assert_nothing_lost(&watchers);
}

#[test]
fn what_fails_is_an_error_of_its_operation() {
    let watchers = watchers("vfs");
    // Room for four pages: the fifth does not fit.
    let storage = Storage::of(Kind::Tmpfs, 4 * 4096);
    let files = calls::Files::in_directory(storage.path());
    let seen = watch(&watchers, "errors", || calls::failures(&files));
    assert_same("failures", &seen, &calls::FAILURES);
}

#[test]
fn what_is_no_storage_is_not_counted() {
    let watchers = watchers("vfs");
    let cgroup = Cgroup::new("pseudo-target");
    let directory = calls::path(&cgroup.directory().join("inner"));
    let seen = watch(&watchers, "pseudo", || calls::no_storage(&directory));
    assert_same("no storage", &seen, &Counts::default());
}

#[test]
fn threads_on_one_file_lose_nothing() {
    const THREADS: usize = 64;
    const TIMES: u64 = 200;
    /// Older kernels do not report missed kprobes.
    const TELLS: (u32, u32) = (6, 7);
    let watchers = watchers("vfs");
    let storage = Storage::of(Kind::Ext4, ROOM);
    let files = calls::Files::in_directory(storage.path());
    let seen = watch(&watchers, "threads", || calls::crowd(&files, THREADS, TIMES));
    let expected = calls::of_crowd(THREADS as u64, TIMES);
    for (watcher, counts) in &seen {
        let snapshot = watcher.agent.snapshot();
        let ends_missed = lost(&snapshot, "vfs", "end_missed");
        let missed = missed_runs(&snapshot, "vfs");
        let name = watcher.mode.name();
        figure(&format!("{THREADS} threads by {name}: {counts:?}, {ends_missed} ends missed, {missed} runs"));
        let never_misses = watcher.mode != AttachMode::Kprobe && missed == 0;
        if never_misses {
            assert_eq!((*counts, ends_missed), (expected, 0), "{name}");
            continue;
        }
        // A kretprobe can track only a few calls at a time. On kernels that preempt programs, a preempted
        // program prevents others on its CPU from running it. Both are counted, except for the last call of a
        // thread: its missed end is noticed only when the thread calls again.
        assert!(counts.operations() <= expected.operations(), "{counts:?} by {name}");
        if watcher.mode == AttachMode::Kprobe && kernel() < TELLS {
            assert!(counts.operations() > 0 && ends_missed > 0, "{counts:?}, {ends_missed} by {name}");
            continue;
        }
        let noticed = counts.operations() + ends_missed + missed + THREADS as u64;
        assert!(noticed >= expected.operations(), "{counts:?}, {ends_missed}, {missed} by {name}");
    }
}

#[test]
fn the_synchronisation_of_a_range_is_one() {
    let watchers = watchers("vfs");
    let storage = Storage::of(Kind::Tmpfs, ROOM);
    let files = calls::Files::in_directory(storage.path());
    let seen = watch(&watchers, "range", || calls::synchronise_range(&files));
    let expected = Counts { create: counts::calls(1), fsync: counts::calls(1), ..Counts::NONE };
    assert_same("sync_file_range", &seen, &expected);
}

#[test]
fn fio_reports_the_same_calls_and_bytes() {
    let watchers = watchers("vfs");
    let storage = Storage::of(Kind::Ext4, ROOM);
    for direction in ["write", "read"] {
        // fio's other operations, which it does not report, are the same in both runs.
        let [(small, seen_small), (large, seen_large)] = [("4m", 0), ("8m", 1)].map(|(size, run)| {
            let cgroup = Cgroup::new(&format!("fio-{direction}-{run}"));
            let report = fio::run(&cgroup, storage.path(), direction, size);
            let seen = watchers.iter().map(|watcher| of_workload(&watcher.agent.snapshot(), &cgroup.name));
            (report, seen.collect::<Vec<_>>())
        });
        figure(&format!("fio {direction}: {small:?}, {large:?}"));
        for ((watcher, small_counts), large_counts) in watchers.iter().zip(&seen_small).zip(&seen_large) {
            let ours = fio::Report::of_counts(large_counts, direction)
                .less(&fio::Report::of_counts(small_counts, direction));
            assert_eq!(ours, large.less(&small), "{direction} by {}", watcher.mode.name());
        }
    }
}

#[test]
fn fio_reports_the_same_percentiles_of_fsync() {
    /// Our quantiles between which fio's must lie. fio may be preempted between the end of a call and its own
    /// clock read, which makes only its own latency longer. One such call moves its 99th percentile up by one
    /// rank of some 256.
    const QUANTILES: [[f64; 2]; 2] = [[0.5, 0.5], [0.99, 0.995]];
    let watchers = watchers("vfs");
    let storage = Storage::of(Kind::Ext4, ROOM);
    // One of three attempts with equal percentiles is enough.
    let mut apart = Vec::new();
    for attempt in 0..3 {
        let cgroup = Cgroup::new(&format!("percentiles-{attempt}"));
        let report = fio::run(&cgroup, storage.path(), "write", "8m");
        apart.clear();
        for watcher in &watchers {
            let snapshot = watcher.agent.snapshot();
            let vfs = workload(&snapshot, &cgroup.name).and_then(|workload| workload.vfs.as_ref());
            let latency = &vfs.expect("it did something").fsync.latency;
            for (quantiles, theirs) in QUANTILES.into_iter().zip([report.fsync_p50_ns, report.fsync_p99_ns]) {
                let ours = quantiles.map(|quantile| latency.quantile(quantile).expect("there were some"));
                let is_between = (ours[0]..=ours[1]).contains(&(theirs as f64 / 1e9));
                let steps = ours.map(|ours| buckets_apart(ours, theirs));
                figure(&format!(
                    "{quantiles:?} of fsync by {}: {ours:?} s, fio {theirs} ns, {steps:?} buckets apart",
                    watcher.mode.name()
                ));
                if !is_between && steps.iter().all(|steps| *steps > 1) {
                    apart.push((watcher.mode, quantiles, ours, theirs));
                }
            }
        }
        if apart.is_empty() {
            return;
        }
    }
    panic!("more than a bucket apart: {apart:?}");
}

#[test]
fn callers_that_are_killed_leave_nothing_behind() {
    let watchers = watchers("vfs");
    let storage = Storage::of(Kind::Ext4, ROOM);
    let files = calls::Files::in_directory(storage.path());
    let cgroup = Cgroup::new("killed");
    for _ in 0..20 {
        let load = Load::running(&cgroup, &cpus(), || calls::for_ever(&files));
        support::until("it has begun", || has_bytes(storage.path()).then_some(()));
        drop(load);
        std::fs::remove_file(storage.path().join("endless")).expect("it was there");
    }
    // The same thread ids may be reused: a new thread with such an id is in no call.
    let seen = watch(&watchers, "after-killed", || calls::every_way(&files));
    assert_same("after those that were killed", &seen, &calls::EVERY_WAY);
    assert_nothing_lost(&watchers);
}

fn has_bytes(directory: &Path) -> bool {
    std::fs::metadata(directory.join("endless")).is_ok_and(|file| file.len() > 0)
}
