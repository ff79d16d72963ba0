//! Storage operations of known loads, by every tier that this kernel has at the same time: each must count what the load
//! did, no more and no less.

#[path = "vfs/calls.rs"]
mod calls;
#[path = "vfs/counts.rs"]
mod counts;
mod support;

use std::path::Path;

use support::cgroup::Cgroup;
use support::figure;
use support::process::{Load, cpus};
use support::storage::{Kind, Storage};
use support::tiers::{Watcher, watchers};
use support::totals::lost;

use counts::{Counts, of_workload};

const ROOM: u64 = 64 << 20;

/// Has a child in a cgroup of its own do something, and returns what each tier says of it.
fn watch<'a>(watchers: &'a [Watcher], name: &str, body: impl FnOnce()) -> Vec<(&'a Watcher, Counts)> {
    let cgroup = Cgroup::new(name);
    Load::running(&cgroup, &cpus(), body).finish();
    watchers.iter().map(|watcher| (watcher, of_workload(&watcher.agent.snapshot(), &cgroup.name))).collect()
}

fn assert_same(what: &str, seen: &[(&Watcher, Counts)], expected: &Counts) {
    for (watcher, counts) in seen {
        figure(&format!("{what} by {}: {counts:?}", watcher.tier.name()));
    }
    for (watcher, counts) in seen {
        assert_eq!(counts, expected, "{what} by {}", watcher.tier.name());
    }
}

fn assert_nothing_lost(watchers: &[Watcher]) {
    for watcher in watchers {
        let snapshot = watcher.agent.snapshot();
        for reason in ["end_missed", "no_free_slot", "task_storage_full"] {
            assert_eq!(lost(&snapshot, reason), 0, "{reason} by {}", watcher.tier.name());
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
    // Four pages: the fifth is one too many.
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
    let watchers = watchers("vfs");
    let storage = Storage::of(Kind::Ext4, ROOM);
    let files = calls::Files::in_directory(storage.path());
    let seen = watch(&watchers, "threads", || calls::crowd(&files, THREADS, TIMES));
    let expected = calls::of_crowd(THREADS as u64, TIMES);
    for (watcher, counts) in &seen {
        figure(&format!("{THREADS} threads by {}: {counts:?}", watcher.tier.name()));
        // A kretprobe has room for a few calls at a time, and the kernel counts those that find none.
        let missed: u64 = watcher.agent.snapshot().agent.programs.iter().map(|program| program.missed).sum();
        if missed == 0 {
            assert_eq!(*counts, expected, "{}", watcher.tier.name());
        } else {
            figure(&format!("{} missed {missed} runs", watcher.tier.name()));
            assert_eq!(watcher.tier, sysprobe_agent::probe::Tier::Kprobe);
            assert!(counts.operations() + missed >= expected.operations(), "{counts:?} {missed}");
        }
    }
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
    }
    // The same thread ids may come back: whoever has them next is in no call.
    let seen = watch(&watchers, "after-killed", || calls::every_way(&files));
    assert_same("after those that were killed", &seen, &calls::EVERY_WAY);
    assert_nothing_lost(&watchers);
}

fn has_bytes(directory: &Path) -> bool {
    std::fs::metadata(directory.join("endless")).is_ok_and(|file| file.len() > 0)
}
