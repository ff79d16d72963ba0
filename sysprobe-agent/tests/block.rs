//! Block device requests of known loads, measured by every attach mode of this kernel at the same time and
//! compared with the counts of the kernel and of the load.

#[path = "block/counts.rs"]
mod counts;
#[path = "block/deep.rs"]
mod deep;
#[path = "block/disk.rs"]
mod disk;
#[path = "block/held.rs"]
mod held;
mod support;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use support::attach_modes::{Watcher, watchers};
use support::cgroup::{Cgroup, is_v1};
use support::hidden::count_all;
use support::process::inside;
use support::storage::{Kind, run};
use support::totals::lost;
use support::{figure, until};
use sysprobe_agent::snapshot::Snapshot;
use sysprobe_common::block::Operation;

use counts::Counts;
use disk::{Disk, DiskStats};

/// `mkfs.xfs` needs at least 300 MiB.
const BYTES: u64 = 320 << 20;

/// The agents' snapshots from a time when the device is idle, and the kernel's statistics at the same time.
fn at_rest(disk: &Disk, watchers: &[Watcher]) -> (DiskStats, Vec<Snapshot>) {
    until("the device is idle", || {
        let before = disk.statistics();
        let snapshots = watchers.iter().map(|watcher| watcher.agent.snapshot()).collect();
        (before.in_flight == 0 && before == disk.statistics()).then_some((before, snapshots))
    })
}

fn assert_nothing_lost(watchers: &[Watcher]) {
    for watcher in watchers {
        let snapshot = watcher.agent.snapshot();
        for reason in ["in_flight_full", "no_free_slot", "unreadable_cgroup", "backwards_clock"] {
            assert_eq!(lost(&snapshot, "block", reason), 0, "{reason} by {}", watcher.mode.name());
        }
    }
}

/// fio's report of one thread in a cgroup that randomly reads or writes blocks of 4 KiB.
fn fio(cgroup: &Cgroup, arguments: &[&str]) -> Value {
    let mut fio = Command::new("fio");
    fio.args([
        "--name=job",
        "--ioengine=psync",
        "--bs=4k",
        "--thread",
        "--randseed=1",
        "--output-format=json",
    ]);
    fio.args(arguments).stdin(Stdio::null());
    inside(&mut fio, cgroup);
    serde_json::from_str(&run(&mut fio)).expect("fio writes JSON")
}

/// Runs `dd` in a cgroup; returns whether it succeeded.
fn dd(cgroup: &Cgroup, arguments: &[String]) -> bool {
    let mut dd = Command::new("dd");
    dd.arg("status=none").args(arguments).stderr(Stdio::null());
    inside(&mut dd, cgroup);
    dd.status().expect("dd can be started").success()
}

/// Writes through the cache and around it, in order and not, with and without flushing the device's cache.
/// Reads back and discards.
fn everything(cgroup: &Cgroup, directory: &Path) {
    let place = format!("--directory={}", directory.display());
    fio(cgroup, &[&place, "--filename=random", "--size=2m", "--direct=1", "--rw=randrw", "--fsync=8"]);
    fio(cgroup, &[&place, "--filename=order", "--size=4m", "--rw=write", "--end_fsync=1"]);
    fio(cgroup, &[&place, "--filename=order", "--size=4m", "--rw=read", "--invalidate=1"]);
    // Written back in a different order, so that requests are merged.
    fio(cgroup, &[&place, "--filename=disorder", "--size=4m", "--rw=randwrite", "--end_fsync=1"]);
    fs::remove_file(directory.join("order")).expect("removed");
    run(Command::new("sync").arg("--file-system").arg(directory));
    run(Command::new("fstrim").arg(directory));
}

/// At the end of a loop device's request, the kernel reads its clock after all programs, so our time is never
/// the larger one. How much smaller it is depends on what else the CPU does in between. The kernel shows
/// whole milliseconds.
fn assert_no_longer(what: &str, ours_ms: u64, kernels_ms: u64) {
    const ROUNDED_MS: u64 = 2;
    assert!(ours_ms <= kernels_ms + ROUNDED_MS, "{what}: {ours_ms} ms of {kernels_ms} ms");
}

#[test]
fn all_requests_are_those_of_the_kernels_own_statistics() {
    count_all(compare_with_statistics);
}

fn compare_with_statistics() {
    // With the scheduler, requests wait in a queue and are merged there; without it, they go to the driver at
    // once.
    for (kind, scheduler) in [(Kind::Ext4, "mq-deadline"), (Kind::Xfs, "none"), (Kind::Ext4, "none")] {
        let disk = Disk::formatted(BYTES, kind);
        if !disk.set("scheduler", scheduler) {
            figure(&format!("left out: {scheduler}, which this kernel does not have"));
            continue;
        }
        let watchers = watchers("block");
        let cgroup = Cgroup::new(&format!("all-{}-{scheduler}", kind.name()));
        let (kernel_before, before) = at_rest(&disk, &watchers);
        everything(&cgroup, disk.mounted());
        let (kernel_after, after) = at_rest(&disk, &watchers);
        let truth = kernel_after.since(&kernel_before);
        for ((watcher, before), after) in watchers.iter().zip(before).zip(after) {
            let all = Counts::of_device(&after, &disk.name).since(Counts::of_device(&before, &disk.name));
            let ours = all.as_statistics();
            let what = format!("{} with {scheduler} by {}", kind.name(), watcher.mode.name());
            figure(&format!(
                "{what}: {ours:?}, of which flushes {:?}; the kernel: {truth:?}",
                all.of(Operation::Flush)
            ));
            assert_no_longer(&what, ours.read_ms, truth.read_ms);
            assert_no_longer(&what, ours.write_ms, truth.write_ms);
            assert_no_longer(&what, ours.discard_ms, truth.discard_ms);
            let (read_ms, write_ms, discard_ms) = (truth.read_ms, truth.write_ms, truth.discard_ms);
            let missed = lost(&after, "block", "submission_missed");
            assert_eq!(DiskStats { read_ms, write_ms, discard_ms, ..ours }, truth, "{what}, {missed} missed");
            assert!(all.of(Operation::Flush).requests > 0, "{what}: nothing was flushed");
            let (read, flush) = (all.of(Operation::Read), all.of(Operation::Flush));
            assert!((1..=read.took_ns).contains(&read.queued_ns), "{what}: {read:?}");
            assert_eq!(flush.queued_ns, 0, "{what}");
            let own = Counts::of_workload(&after, &cgroup.name, &disk.name);
            let read = (own.of(Operation::Read).requests, all.of(Operation::Read).requests);
            figure(&format!("{what}: {} of {} reads are the cgroup's own", read.0, read.1));
            assert!(2 * read.0 > read.1, "{what}: {read:?}");
        }
        assert_nothing_lost(&watchers);
    }
}

#[test]
fn requests_flushes_and_bytes_are_those_of_fio() {
    count_all(compare_with_fio);
}

fn compare_with_fio() {
    let disk = Disk::new(16 << 20);
    let watchers = watchers("block");
    let cgroup = Cgroup::new("fio");
    let device = format!("--filename={}", disk.path().display());
    let report = fio(&cgroup, &[&device, "--size=4m", "--direct=1", "--rw=randrw", "--fsync=8"]);
    let number =
        |path: &str| report.pointer(path).and_then(Value::as_u64).unwrap_or_else(|| panic!("no {path}"));
    let (_, snapshots) = at_rest(&disk, &watchers);
    for (watcher, snapshot) in watchers.iter().zip(&snapshots) {
        let ours = Counts::of_workload(snapshot, &cgroup.name, &disk.name);
        figure(&format!("fio by {}: {ours:?}", watcher.mode.name()));
        let (read, write) = (ours.of(Operation::Read), ours.of(Operation::Write));
        assert_eq!(
            (read.requests, read.bytes),
            (number("/jobs/0/read/total_ios"), number("/jobs/0/read/io_bytes"))
        );
        assert_eq!(
            (write.requests, write.bytes),
            (number("/jobs/0/write/total_ios"), number("/jobs/0/write/io_bytes"))
        );
        assert_eq!(ours.of(Operation::Flush).requests, number("/jobs/0/sync/total_ios"));
        // fio measures from before its call to after it, which includes the device's time.
        let waited =
            report["jobs"][0]["read"]["clat_ns"]["mean"].as_f64().expect("a mean") * read.requests as f64;
        figure(&format!(
            "the device's part of {waited:.0} ns of reads by {}: {}",
            watcher.mode.name(),
            read.took_ns
        ));
        assert!(read.took_ns > 0 && read.took_ns as f64 <= waited, "by {}", watcher.mode.name());
    }
    assert_nothing_lost(&watchers);
}

/// Without the kernel's timestamps, a request's time begins when the agent first sees it.
#[test]
fn a_queue_without_statistics_counts_all_the_same() {
    count_all(turn_statistics_off);
}

fn turn_statistics_off() {
    let disk = Disk::new(16 << 20);
    assert!(disk.set("iostats", "0") && disk.set("scheduler", "none"), "every queue has these");
    let watchers = watchers("block");
    let cgroup = Cgroup::new("unstamped");
    let device = format!("--filename={}", disk.path().display());
    let report = fio(&cgroup, &[&device, "--size=2m", "--direct=1", "--rw=randrw", "--fsync=8"]);
    let number =
        |path: &str| report.pointer(path).and_then(Value::as_u64).unwrap_or_else(|| panic!("no {path}"));
    for watcher in &watchers {
        let ours = Counts::of_workload(&watcher.agent.snapshot(), &cgroup.name, &disk.name);
        let requests = Operation::ALL.map(|operation| ours.of(operation).requests);
        let reported = ["read", "write", "sync"].map(|what| number(&format!("/jobs/0/{what}/total_ios")));
        assert_eq!(requests, [reported[0], reported[1], 0, reported[2]], "by {}", watcher.mode.name());
        let read = ours.of(Operation::Read);
        let waited =
            report["jobs"][0]["read"]["clat_ns"]["mean"].as_f64().expect("a mean") * read.requests as f64;
        assert!(read.took_ns > 0 && read.took_ns as f64 <= waited, "by {}: {read:?}", watcher.mode.name());
    }
    assert_nothing_lost(&watchers);
}

#[test]
fn what_a_device_fails_to_do_is_an_error() {
    count_all(fill_device);
}

fn fill_device() {
    const BLOCK: u64 = 4096;
    const WRITES: u64 = 8;
    let disk = Disk::with_room(1 << 20, 5 * BLOCK);
    let watchers = watchers("block");
    let cgroup = Cgroup::new("errors");
    let output = format!("of={}", disk.path().display());
    let writes = |block: u64| {
        let (seek, how) = (format!("seek={block}"), ["oflag=direct", "conv=notrunc"]);
        let arguments = ["if=/dev/zero", &output, "bs=4096", "count=1", &seek, how[0], how[1]];
        dd(&cgroup, &arguments.map(str::to_owned))
    };
    let written = (0..WRITES).filter(|block| writes(*block)).count() as u64;
    assert!((1..WRITES).contains(&written), "{written} of {WRITES} fit");
    let (_, snapshots) = at_rest(&disk, &watchers);
    for (watcher, snapshot) in watchers.iter().zip(&snapshots) {
        let ours = *Counts::of_workload(snapshot, &cgroup.name, &disk.name).of(Operation::Write);
        let (errors, bytes) = (WRITES - written, written * BLOCK);
        assert_eq!(
            (ours.requests, ours.errors, ours.bytes),
            (WRITES, errors, bytes),
            "{}",
            watcher.mode.name()
        );
    }
}

/// Lets the kernel record the cgroup of pages and requests, for children of the root. `false` if it cannot.
fn can_note_owners() -> bool {
    let root = Path::new("/sys/fs/cgroup");
    !is_v1() && fs::write(root.join("cgroup.subtree_control"), "+io +memory").is_ok()
}

#[test]
fn what_is_written_back_later_is_charged_to_who_wrote_it_where_the_kernel_knows() {
    count_all(write_back_later);
}

fn write_back_later() {
    const WRITTEN: u64 = 8 << 20;
    let notes = can_note_owners();
    let disk = Disk::formatted(BYTES, Kind::Ext4);
    let watchers = watchers("block");
    let cgroup = Cgroup::new("later");
    let output = format!("of={}", disk.mounted().join("file").display());
    let (_, before) = at_rest(&disk, &watchers);
    assert!(dd(
        &cgroup,
        &["if=/dev/zero".to_owned(), output, "bs=1M".to_owned(), format!("count={}", WRITTEN >> 20)]
    ));
    // The kernel's own threads do the writeback, on behalf of the `sync` that runs here.
    run(Command::new("sync").arg("--file-system").arg(disk.mounted()));
    let (_, after) = at_rest(&disk, &watchers);
    for ((watcher, before), after) in watchers.iter().zip(&before).zip(&after) {
        let bytes = |name: &str| {
            let of = |snapshot| Counts::of_workload(snapshot, name, &disk.name);
            of(after).since(of(before)).of(Operation::Write).bytes
        };
        let (own, kernels) = (bytes(&cgroup.name), bytes("kernel"));
        figure(&format!("written by {}: {own} of the cgroup, {kernels} of the kernel", watcher.mode.name()));
        // The rest is the file system's own data, such as its journal.
        let data = if notes { own } else { kernels };
        assert!(data >= WRITTEN, "{data} by {}", watcher.mode.name());
        assert!(notes || own == 0, "{own} by {}", watcher.mode.name());
    }
}

#[test]
fn cgroups_that_go_leave_nothing_behind() {
    count_all(remove_cgroups);
}

fn remove_cgroups() {
    const CGROUPS: u64 = 40;
    /// A margin for other tests that use slots at the same time.
    const OTHERS: u64 = CGROUPS / 4;
    let disk = Disk::new(1 << 20);
    let watchers = watchers("block");
    let input = format!("if={}", disk.path().display());
    let arguments = [input.as_str(), "of=/dev/null", "bs=4096", "count=3", "iflag=direct"].map(str::to_owned);
    let slots = |watcher: &Watcher| {
        let maps = watcher.agent.snapshot().agent.maps;
        maps.into_iter().find(|map| map.map == "block_slots").and_then(|map| map.entries).expect("a map")
    };
    let before: Vec<u64> = watchers.iter().map(slots).collect();
    let names: Vec<String> = (0..CGROUPS)
        .map(|number| {
            let cgroup = Cgroup::new(&format!("gone-{number}"));
            assert!(dd(&cgroup, &arguments));
            cgroup.name.clone()
        })
        .collect();
    let (_, snapshots) = at_rest(&disk, &watchers);
    for (watcher, snapshot) in watchers.iter().zip(&snapshots) {
        for name in &names {
            let read = *Counts::of_workload(snapshot, name, &disk.name).of(Operation::Read);
            assert_eq!((read.requests, read.bytes), (3, 3 * 4096), "{name} by {}", watcher.mode.name());
        }
    }
    for (watcher, before) in watchers.iter().zip(before) {
        let now = until("the slots of the dead are free", || {
            let now = slots(watcher);
            (now <= before + OTHERS).then_some(now)
        });
        figure(&format!("slots in use by {}: {before}, then {now}", watcher.mode.name()));
    }
    assert_nothing_lost(&watchers);
}
