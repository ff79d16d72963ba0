//! Direct reclaim of known loads, measured by every attach mode of this kernel at the same time and compared
//! with the kernel's own delay accounting.

#[path = "reclaim/delays.rs"]
mod delays;
mod support;

use std::fs::{self, File};
use std::io::Read;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::Instant;

use support::attach_modes::{Watcher, watchers};
use support::cgroup::Cgroup;
use support::memory::{make_room, take};
use support::place::{Flag, sleep_forever};
use support::process::{Load, cpus};
use support::storage::{Kind, Storage};
use support::totals::{lost, missed_runs, workload};
use support::{figure, left_out, until};
use sysprobe_agent::snapshot::ReclaimSample;

use delays::{Accounting, Delays};

const MIB: u64 = 1 << 20;
const LIMIT: u64 = 16 * MIB;
/// Several times the limit.
const FILE: u64 = 96 * MIB;

fn sample(watcher: &Watcher, name: &str) -> ReclaimSample {
    let snapshot = watcher.agent.snapshot();
    workload(&snapshot, name).and_then(|row| row.reclaim).unwrap_or_default()
}

fn assert_nothing_lost(watchers: &[Watcher]) {
    for watcher in watchers {
        let snapshot = watcher.agent.snapshot();
        let mode = watcher.mode.name();
        for reason in ["end_missed", "no_memory", "no_free_slot", "unreadable_cgroup", "backwards_clock"] {
            assert_eq!(lost(&snapshot, "reclaim", reason), 0, "{reason} by {mode}");
        }
        assert_eq!(missed_runs(&snapshot, "reclaim"), 0, "by {mode}");
    }
}

/// Reads a file that is not in memory: its pages are charged to the reader's cgroup and soon exceed the
/// limit. Runs in a load.
fn read_through(path: &Path) {
    let mut file = File::open(path).expect("there");
    // SAFETY: an open file.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    let mut block = [0_u8; 16 << 10];
    while file.read(&mut block).expect("readable") > 0 {}
}

fn file_on(storage: &Storage) -> PathBuf {
    let path = storage.path().join("file");
    fs::write(&path, vec![7_u8; usize::try_from(FILE).expect("small")]).expect("written");
    File::open(&path).and_then(|file| file.sync_all()).expect("written back");
    path
}

#[test]
fn reading_more_than_the_limit_is_what_delay_accounting_says() {
    let storage = Storage::of(Kind::Ext4, 0);
    let path = file_on(&storage);
    let watchers = watchers("reclaim");
    let cgroup = Cgroup::with_memory("reader");
    cgroup.set_memory_limit(LIMIT);
    let _accounting = Accounting::on();
    let done = Flag::new();
    let load = Load::stopped(&cgroup, &cpus(), || {
        read_through(&path);
        done.set();
        sleep_forever();
    });
    let before = Delays::of(load.pid);
    let ours_before: Vec<_> = watchers.iter().map(|watcher| sample(watcher, &cgroup.name)).collect();
    let start = Instant::now();
    load.resume();
    done.wait();
    load.freeze();
    let elapsed = u64::try_from(start.elapsed().as_nanos()).expect("small");
    let truth = before.zip(Delays::of(load.pid)).map(|(before, after)| after.since(before));
    figure(&format!("delay accounting: {truth:?}, of {elapsed} ns"));
    let mut counts = Vec::new();
    for (watcher, before) in watchers.iter().zip(&ours_before) {
        let (mode, now) = (watcher.mode.name(), sample(watcher, &cgroup.name));
        let (reclaims, took) = (now.reclaims - before.reclaims, now.took_ns - before.took_ns);
        figure(&format!("{mode}: {reclaims} reclaims, {took} ns"));
        assert!(reclaims > 0 && took > 0 && took < elapsed, "{mode}");
        counts.push(reclaims);
        match truth.filter(|truth| truth.reclaims > 0) {
            Some(truth) => assert_agrees(mode, reclaims, took, truth),
            None => left_out("delay accounting", "this kernel keeps none"),
        }
    }
    assert!(counts.iter().all(|count| *count == counts[0]), "attach modes differ: {counts:?}");
    assert_nothing_lost(&watchers);
    let name = cgroup.name.clone();
    let last: Vec<_> = watchers.iter().map(|watcher| sample(watcher, &name)).collect();
    drop(load);
    cgroup.remove();
    for (watcher, last) in watchers.iter().zip(last) {
        let gone = sample(watcher, &name);
        assert!(gone.reclaims >= last.reclaims, "in its grace: {gone:?} {last:?}");
    }
}

/// The kernel's interval lies within ours. Between them are a few instructions and the programs of all
/// watchers, which took one microsecond; emulation takes some thirty times as long.
fn assert_agrees(mode: &str, reclaims: u64, took: u64, truth: Delays) {
    const BETWEEN_NS: u64 = 100_000;
    assert_eq!(reclaims, truth.reclaims, "by {mode}");
    assert!(took >= truth.took_ns, "by {mode}: {took} ns of {truth:?}");
    assert!(took <= truth.took_ns + reclaims * BETWEEN_NS, "by {mode}: {took} ns of {truth:?}");
}

/// A task that lowers a limit reclaims the memory itself, although another task uses it.
#[test]
fn the_one_who_waits_is_charged() {
    let watchers = watchers("reclaim");
    let storage = Storage::of(Kind::Ext4, 0);
    let path = file_on(&storage);
    let (owner, writer) = (Cgroup::with_memory("owner"), Cgroup::new("writer"));
    let (ready, done) = (Flag::new(), Flag::new());
    make_room();
    let _owner = Load::running(&owner, &cpus(), || {
        let _taken = take(1 << 20);
        read_through(&path);
        ready.set();
        sleep_forever();
    });
    ready.wait();
    let limit = owner.memory_limit_file();
    let _writer = Load::running(&writer, &cpus(), || {
        fs::write(&limit, LIMIT.to_string()).expect("it can be lowered");
        done.set();
        sleep_forever();
    });
    done.wait();
    for watcher in &watchers {
        let mode = watcher.mode.name();
        let reclaims = until("it is charged", || {
            let sample = sample(watcher, &writer.name);
            (sample.reclaims > 0 && sample.took_ns > 0).then_some(sample)
        });
        figure(&format!("{mode}: {reclaims:?}"));
        assert_eq!(sample(watcher, &owner.name), ReclaimSample::default(), "by {mode}");
    }
    assert_nothing_lost(&watchers);
}

#[test]
fn who_has_room_enough_has_no_series() {
    let watchers = watchers("reclaim");
    make_room();
    let cgroup = Cgroup::with_memory("room");
    let mut load = Load::running(&cgroup, &cpus(), || drop(take(8 << 20)));
    load.wait();
    for watcher in &watchers {
        let labels = [("container", &*cgroup.name)];
        let series = watcher.agent.scrape().value("sysprobe_memory_direct_reclaims_total", &labels);
        assert_eq!(series, None, "by {}", watcher.mode.name());
    }
}
