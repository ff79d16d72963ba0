//! Requests that a device holds for a time that the test knows.

use std::thread;
use std::time::{Duration, Instant};

use sysprobe_common::block::Operation;

use super::counts::Counts;
use super::disk::Disk;
use super::support::attach_modes::watchers;
use super::support::cgroup::Cgroup;
use super::support::hidden::count_all;
use super::support::{figure, until};
use super::{assert_no_longer, assert_nothing_lost, at_rest, fio};

const BYTES: u64 = 16 << 20;
/// Of each kind, all at the same time.
const REQUESTS: u64 = 16;
/// Much longer than the device takes otherwise.
const HELD: Duration = Duration::from_millis(300);

/// Makes all requests at once, each of one block.
fn submit(cgroup: &Cgroup, disk: &Disk, operation: &str) {
    let place = format!("--filename={}", disk.path().display());
    let (size, depth) = (format!("--io_size={}k", 4 * REQUESTS), format!("--iodepth={REQUESTS}"));
    fio(
        cgroup,
        &[&place, "--direct=1", &format!("--rw=rand{operation}"), "--ioengine=libaio", &size, &depth],
    );
}

/// Makes requests while the device is held; returns how long all of them were in flight at least.
fn hold_requests(cgroup: &Cgroup, disk: &Disk) -> Duration {
    thread::scope(|scope| {
        let held = disk.hold();
        scope.spawn(|| submit(cgroup, disk, "write"));
        until("all writes are in flight", || (disk.statistics().in_flight >= REQUESTS).then_some(()));
        // One thread of the kernel does what this cgroup asks of the device, so they wait behind the writes.
        scope.spawn(|| submit(cgroup, disk, "read"));
        until("the reads, too", || (disk.statistics().in_flight >= 2 * REQUESTS).then_some(()));
        let since = Instant::now();
        let time = until("they were held", || Some(since.elapsed()).filter(|time| *time >= HELD));
        drop(held);
        time
    })
}

#[test]
fn a_request_takes_at_least_as_long_as_it_was_held() {
    count_all(hold_and_compare);
}

fn hold_and_compare() {
    let disk = Disk::that_can_be_held(BYTES);
    let watchers = watchers("block");
    let cgroup = Cgroup::new("held");
    let (before, _) = at_rest(&disk, &watchers);
    let held = hold_requests(&cgroup, &disk);
    let (after, snapshots) = at_rest(&disk, &watchers);
    let truth = after.since(&before);
    let least = u64::try_from(held.as_nanos()).expect("short") * REQUESTS;
    for (watcher, snapshot) in watchers.iter().zip(&snapshots) {
        let ours = Counts::of_workload(snapshot, &cgroup.name, &disk.name);
        let name = watcher.mode.name();
        figure(&format!("by {name}: {ours:?} of {truth:?}, held {held:?}"));
        for operation in [Operation::Read, Operation::Write] {
            let count = ours.of(operation);
            assert_eq!((count.requests, count.bytes), (REQUESTS, REQUESTS * 4096), "{operation:?} by {name}");
            assert!(count.took_ns >= least, "{operation:?} by {name}: {} of {least} ns", count.took_ns);
        }
        let ours = ours.as_statistics();
        assert_no_longer(name, ours.read_ms, truth.read_ms);
        assert_no_longer(name, ours.write_ms, truth.write_ms);
    }
    assert_nothing_lost(&watchers);
}
