//! Calls that wait exactly as long as the test makes them: their latency, migrations of their task meanwhile,
//! and the counts that remain if the task is killed.

use std::path::Path;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use sysprobe_agent::snapshot::HistogramSample;
use sysprobe_common::hist;

use super::absent::{Announced, PAGE, Wanted};
use super::calls::{self, close, open, worked};
use super::counts::{Count, Counts, failed, of_workload};
use super::support::attach_modes::{Watcher, watchers};
use super::support::cgroup::Cgroup;
use super::support::process::{Load, cpus};
use super::support::storage::{Frozen, Storage};
use super::support::totals::workload;
use super::support::{SharedNumbers, figure, left_out, shared, until};
use super::{assert_nothing_lost, assert_same, watch};

const ONCE: Count = Count { calls: 1, errors: 0 };

/// Far longer than a busy machine adds by itself.
const HELD: Duration = Duration::from_millis(300);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Read,
    Write,
    Fsync,
}

/// The child's report of its call.
#[derive(Debug, Default)]
struct Account {
    waited_ns: AtomicU64,
    cpu_before: AtomicI32,
    cpu_after: AtomicI32,
    page: Announced,
}

// SAFETY: numbers, of which zero is a value.
unsafe impl SharedNumbers for Account {}

/// The resource that keeps the call from ending.
enum Hold {
    Memory(Wanted),
    Storage(Frozen),
}

/// A child in a call that lasts until it is released. `hold` is dropped first, because the child cannot be
/// killed before.
struct Waiting {
    hold: Option<Hold>,
    load: Load,
    cgroup: Cgroup,
    way: Way,
    account: &'static Account,
    /// A time at which the child was certainly in the call.
    inside: Instant,
}

impl Way {
    const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Fsync];

    /// The expected counts if the child runs to its end.
    const fn counts(self) -> Counts {
        let opened = Counts { open: ONCE, ..Counts::NONE };
        let written = Counts { write: ONCE, bytes_written: PAGE as u64, ..opened };
        match self {
            Self::Read => Counts { read: ONCE, bytes_read: PAGE as u64, ..opened },
            Self::Write => written,
            Self::Fsync => Counts { fsync: ONCE, ..written },
        }
    }

    /// The expected counts if the child is killed in its call. A sync cannot be interrupted before the device
    /// has answered.
    const fn counts_killed(self) -> Counts {
        let counts = self.counts();
        match self {
            Self::Read => Counts { read: failed(1), bytes_read: 0, ..counts },
            Self::Write => Counts { write: failed(1), bytes_written: 0, ..counts },
            Self::Fsync => counts,
        }
    }
}

impl Account {
    fn timed(&self, call: impl FnOnce() -> libc::c_long) {
        self.cpu_before.store(this_cpu(), Ordering::Relaxed);
        let start = Instant::now();
        worked(call());
        let waited = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.waited_ns.store(waited, Ordering::Relaxed);
        self.cpu_after.store(this_cpu(), Ordering::Relaxed);
    }
}

fn this_cpu() -> i32 {
    // SAFETY: only returns a number.
    unsafe { libc::sched_getcpu() }
}

/// The child's work: one page is read, written, or written and synced to the device.
fn body(way: Way, name: &std::ffi::CStr, account: &Account) {
    let there = [b'x'; PAGE];
    let file = open(name, libc::O_RDWR);
    // SAFETY: a descriptor and memory that live. A missing page is provided in time.
    unsafe {
        match way {
            Way::Read => {
                let page = account.page.page();
                account.timed(|| libc::pread(file, page, PAGE, 0) as _);
            }
            Way::Write => {
                let page = account.page.page();
                account.timed(|| libc::pwrite(file, page, PAGE, 0) as _);
            }
            Way::Fsync => {
                worked(libc::pwrite(file, there.as_ptr().cast(), PAGE, 0) as _);
                account.timed(|| libc::fsync(file).into());
            }
        }
    }
    close(file);
}

impl Waiting {
    /// Returns when the child is in its call.
    fn begin(way: Way, storage: &Storage, name: &str) -> Self {
        let cgroup = Cgroup::new(name);
        let account = shared::<Account>();
        let file = storage.path().join("file");
        make(&file);
        let frozen = (way == Way::Fsync).then(|| storage.freeze_below());
        let first = &cpus()[..1];
        let load = Load::running(&cgroup, first, || body(way, &calls::path(&file), account));
        let hold = match frozen {
            Some(frozen) => {
                until("the child waits for the device", || is_in(&load, libc::SYS_fsync).then_some(()));
                Hold::Storage(frozen)
            }
            None => Hold::Memory(account.page.wanted(&load)),
        };
        Self { hold: Some(hold), load, cgroup, way, account, inside: Instant::now() }
    }

    /// Lets the call end. Returns the minimum time that it took.
    fn release(&mut self) -> Duration {
        sleep(HELD.saturating_sub(self.inside.elapsed()));
        let held = self.inside.elapsed();
        match self.hold.take() {
            Some(Hold::Memory(page)) => page.give(),
            Some(Hold::Storage(frozen)) => drop(frozen),
            None => {}
        }
        held
    }

    /// Asserts an attach mode's latency of the call: at least the time that it was held, and at most the time
    /// that its caller waited.
    fn assert_length(&self, watcher: &Watcher, held: Duration) {
        let waited = self.account.waited_ns.load(Ordering::Relaxed);
        let held = u64::try_from(held.as_nanos()).expect("no centuries");
        let latency = of_way(watcher, &self.cgroup.name, self.way);
        let (ours, name) = (latency.sum_ns, watcher.mode.name());
        figure(&format!("{:?} by {name}: held {held} ns, booked {ours} ns, waited {waited} ns", self.way));
        assert_eq!(latency.count(), 1, "{:?} by {name}", self.way);
        assert!(
            (held..=waited).contains(&ours),
            "{:?} by {name}: {held} to {waited} ns, not {ours}",
            self.way
        );
        assert_eq!(latency.buckets()[hist::bucket_of(ours)], 1, "{:?} by {name}: {latency:?}", self.way);
    }
}

/// Creates a file whose page is on the device and in memory.
fn make(file: &Path) {
    std::fs::write(file, [b'y'; PAGE]).expect("a file");
    std::fs::File::open(file).and_then(|file| file.sync_all()).expect("it reaches the device");
}

/// Whether a child sleeps uninterruptibly in this system call.
fn is_in(load: &Load, call: libc::c_long) -> bool {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/{}/{name}", load.pid)).unwrap_or_default();
    let sleeps = read("stat").rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('D'));
    sleeps && read("syscall").split(' ').next() == Some(&call.to_string())
}

/// An attach mode's histogram of one kind of call.
fn of_way(watcher: &Watcher, cgroup: &str, way: Way) -> HistogramSample {
    let snapshot = watcher.agent.snapshot();
    let vfs =
        workload(&snapshot, cgroup).and_then(|workload| workload.vfs.as_ref()).expect("it did something");
    let operation = match way {
        Way::Read => &vfs.read,
        Way::Write => &vfs.write,
        Way::Fsync => &vfs.fsync,
    };
    operation.latency.clone()
}

fn seen<'a>(watchers: &'a [Watcher], cgroup: &Cgroup) -> Vec<(&'a Watcher, Counts)> {
    watchers.iter().map(|watcher| (watcher, of_workload(&watcher.agent.snapshot(), &cgroup.name))).collect()
}

#[test]
fn a_call_in_which_its_task_moves_to_another_cpu_is_as_long_as_its_caller_waited() {
    let cpus = cpus();
    let Some(other) = cpus.get(1) else {
        return left_out("calls that move between CPUs", "there is one CPU only");
    };
    let watchers = watchers("vfs");
    let storage = Storage::stacked();
    for way in Way::ALL {
        let mut waiting = Waiting::begin(way, &storage, &format!("moved-{way:?}"));
        waiting.load.move_to(*other);
        let held = waiting.release();
        waiting.load.wait();
        let account = waiting.account;
        let cpu = |cpu: &AtomicI32| usize::try_from(cpu.load(Ordering::Relaxed)).expect("a CPU");
        assert_eq!((cpu(&account.cpu_before), cpu(&account.cpu_after)), (cpus[0], *other), "{way:?}");
        assert_same(&format!("moved {way:?}"), &seen(&watchers, &waiting.cgroup), &way.counts());
        for watcher in &watchers {
            waiting.assert_length(watcher, held);
        }
    }
    assert_nothing_lost(&watchers);
}

#[test]
fn a_caller_that_is_killed_in_a_call_leaves_nothing_behind() {
    let watchers = watchers("vfs");
    let storage = Storage::stacked();
    for way in Way::ALL {
        let mut waiting = Waiting::begin(way, &storage, &format!("killed-{way:?}"));
        waiting.load.kill();
        if way == Way::Fsync {
            // The child dies when its call is over.
            waiting.release();
        }
        waiting.load.wait();
        assert_same(&format!("killed {way:?}"), &seen(&watchers, &waiting.cgroup), &way.counts_killed());
    }
    let files = calls::Files::in_directory(storage.path());
    let after = watch(&watchers, "after-killed-in-a-call", || calls::every_way(&files));
    assert_same("after those that were killed in a call", &after, &calls::EVERY_WAY);
    assert_nothing_lost(&watchers);
}
