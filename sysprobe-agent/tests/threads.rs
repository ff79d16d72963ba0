//! Threads by state against `/proc`, and load averages against the kernel's arithmetic, for known loads.

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::iter::successors;
use std::path::Path;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use support::attach_modes::{Watcher, watchers};
use support::cgroup::{Cgroup, Quota};
use support::process::{self, Load, cpus};
use support::totals::workload;
use support::{figure, until};
use sysprobe_agent::snapshot::{SchedSample, Snapshot, ThreadsSample};
use sysprobe_common::sched::threads::State;

/// One test at a time, because each load shows in the machine's load average.
static HOST: Mutex<()> = Mutex::new(());

fn host() -> MutexGuard<'static, ()> {
    HOST.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The number of threads for each state letter in `/proc/PID/task/TID/stat`.
type Letters = BTreeMap<char, u64>;

/// `include/linux/sched.h`; the same since 2.6.
const PF_KTHREAD: u32 = 0x0020_0000;

/// The letters of the threads that `has` selects by their cgroups and flags.
fn letters_in_proc(has: impl Fn(&str, u32) -> bool) -> Letters {
    let mut letters = Letters::new();
    let processes = fs::read_dir("/proc").expect("/proc").filter_map(Result::ok).map(|entry| entry.path());
    let tasks = processes.filter_map(|process| fs::read_dir(process.join("task")).ok()).flatten();
    for task in tasks.filter_map(Result::ok).map(|task| task.path()) {
        let stat = fs::read_to_string(task.join("stat")).unwrap_or_default();
        let Some((_, fields)) = stat.rsplit_once(") ") else { continue };
        // The third field of the whole line and those after it.
        let fields: Vec<&str> = fields.split(' ').collect();
        let (letter, parent, flags) = (fields[0], fields[1], fields[6].parse().expect("flags"));
        // v1 shows the root cgroup for a thread that has ended; it was in its parent's cgroup.
        let place = if letter == "Z" { Path::new("/proc").join(parent) } else { task };
        let cgroups = fs::read_to_string(place.join("cgroup")).unwrap_or_default();
        if has(&cgroups, flags) {
            *letters.entry(letter.chars().next().expect("a state")).or_default() += 1;
        }
    }
    letters
}

fn letters_of(cgroup: &Cgroup) -> Letters {
    letters_in_proc(|cgroups, _| cgroups.lines().any(|line| line.ends_with(&cgroup.name)))
}

fn until_in_proc(cgroup: &Cgroup, expected: &Letters) {
    let mut found = Letters::new();
    until("every thread is in the state that is made", || {
        let now = letters_of(cgroup);
        if now != found {
            figure(&format!("{}: {now:?}", cgroup.name));
            found = now;
        }
        (found == *expected).then_some(())
    });
}

/// The letters that correspond to the agent's states.
fn letters_told(threads: &ThreadsSample) -> Letters {
    let mut letters = Letters::new();
    for state in State::ALL.into_iter().filter(|state| threads.of(*state) > 0) {
        let letter = match state {
            State::Running | State::Runnable => 'R',
            State::Interruptible => 'S',
            State::Uninterruptible => 'D',
            State::Stopped => 'T',
            State::Traced => 't',
            State::Idle => 'I',
            State::Parked => 'P',
            State::Zombie => 'Z',
            State::Dead => 'X',
        };
        *letters.entry(letter).or_default() += threads.of(state);
    }
    letters
}

fn sched(snapshot: &Snapshot, name: &str) -> SchedSample {
    workload(snapshot, name).and_then(|row| row.sched.clone()).unwrap_or_default()
}

/// Waits for a task scan that matches `/proc` at the same time.
fn until_told(watcher: &Watcher, name: &str, truth: impl Fn() -> Letters) -> ThreadsSample {
    until(&format!("{} tells the states of {name} ({:?})", watcher.mode.name(), truth()), || {
        let threads = sched(&watcher.agent.snapshot(), name).threads?;
        (letters_told(&threads) == truth()).then_some(threads)
    })
}

fn sleep() {
    thread::sleep(Duration::from_secs(100_000));
}

/// Starts a child that runs `body` and is never waited for.
fn leave_child(body: impl FnOnce()) {
    // SAFETY: the child runs what a load may run and leaves by `_exit`.
    unsafe {
        if libc::fork() == 0 {
            body();
            libc::_exit(0);
        }
    }
}

/// Sleeps uninterruptibly until its child ends, which never happens: like `vfork`, but the child has its own
/// memory.
fn wait_as_vfork_does() {
    let flags = libc::c_long::from(libc::CLONE_VFORK | libc::SIGCHLD);
    // SAFETY: without CLONE_VM this is a fork.
    if unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) } == 0 {
        sleep();
    }
}

fn stop_traced() {
    // SAFETY: plain numbers; the parent never waits for the child, so it stays stopped.
    unsafe {
        libc::ptrace(
            libc::PTRACE_TRACEME,
            0,
            ptr::null_mut::<libc::c_void>(),
            ptr::null_mut::<libc::c_void>(),
        );
        libc::raise(libc::SIGSTOP);
    }
}

const SPINNERS: usize = 3;

/// Three sleeping threads, and a child for each of the other states.
fn one_of_each() {
    leave_child(|| process::in_threads(SPINNERS, process::spin));
    leave_child(wait_as_vfork_does);
    leave_child(|| {
        // SAFETY: it stops itself.
        unsafe { libc::raise(libc::SIGSTOP) };
    });
    leave_child(stop_traced);
    leave_child(|| {});
    process::in_threads(3, sleep);
}

#[test]
fn every_state_is_told_as_proc_tells_it() {
    let _host = host();
    let watchers = watchers("sched");
    let cgroup = Cgroup::new("states");
    let load = Load::running(&cgroup, &cpus(), one_of_each);
    // The child of the waiting thread sleeps too.
    let expected = Letters::from([('R', 3), ('S', 4), ('D', 1), ('T', 1), ('t', 1), ('Z', 1)]);
    until_in_proc(&cgroup, &expected);
    for watcher in &watchers {
        let threads = until_told(watcher, &cgroup.name, || expected.clone());
        figure(&format!("{}: {:?} load {}", watcher.mode.name(), threads.by_state, threads.load));
        assert_eq!(threads.load, 4, "those that run, wait for a CPU or sleep uninterruptibly");
        assert!(threads.of(State::Running) <= cpus().len() as u64, "{threads:?}");
        let told = watcher.agent.scrape();
        let labels = [("container", cgroup.name.as_str()), ("state", "zombie")];
        assert_eq!(told.value("sysprobe_sched_threads", &labels), Some(1.0));
    }
    // There are more threads than CPUs, so some of them must be seen waiting.
    for watcher in watchers.iter().filter(|_| cpus().len() < SPINNERS) {
        until("a thread waits", || {
            let threads = sched(&watcher.agent.snapshot(), &cgroup.name).threads?;
            (threads.of(State::Runnable) > 0).then_some(())
        });
    }
    let name = cgroup.name.clone();
    cgroup.remove();
    drop(load);
    for watcher in &watchers {
        let sched = sched(&watcher.agent.snapshot(), &name);
        assert_eq!(
            (sched.threads, sched.load),
            (None, None),
            "{}: what has gone has none",
            watcher.mode.name()
        );
    }
}

#[test]
fn kernel_threads_are_told_as_proc_tells_them() {
    let _host = host();
    for watcher in watchers("sched") {
        let threads = until_told(&watcher, "kernel", || letters_in_proc(|_, flags| flags & PF_KTHREAD != 0));
        figure(&format!("{}: kernel {:?}", watcher.mode.name(), threads.by_state));
        assert!(threads.of(State::Idle) > 0, "{threads:?}");
    }
}

/// The threads are older than the agents and never run while they watch: only a scan of all tasks finds them.
#[test]
fn two_thousand_sleeping_threads_are_counted_exactly_and_go_without_a_trace() {
    const THREADS: u64 = 2_000;
    let _host = host();
    let cgroup = Cgroup::new("sleeping");
    let load = Load::running(&cgroup, &cpus(), || process::in_threads(2_000, sleep));
    let expected = Letters::from([('S', THREADS)]);
    until_in_proc(&cgroup, &expected);
    let watchers = watchers("sched");
    for watcher in &watchers {
        let threads = until_told(watcher, &cgroup.name, || expected.clone());
        assert_eq!((threads.of(State::Interruptible), threads.load), (THREADS, 0));
        let sched = sched(&watcher.agent.snapshot(), &cgroup.name);
        assert_eq!((sched.load.expect("it has threads").fixed, sched.on_cpu_ns), ([0; 3], 0));
    }
    drop(load);
    for watcher in &watchers {
        until("a cgroup without threads has no series", || {
            let sched = sched(&watcher.agent.snapshot(), &cgroup.name);
            (sched.threads.is_none() && sched.load.is_none()).then_some(())
        });
    }
}

/// The averages after one more sample of a constant load, calculated as in kernel/sched/loadavg.c
/// (`calc_load`).
fn one_more(averages: [u64; 3], load: u64) -> [u64; 3] {
    let damped = |average: u64, damping: u64| {
        let sum = average * damping + load * 2048 * (2048 - damping);
        (if load * 2048 >= average { sum + 2047 } else { sum }) / 2048
    };
    let [short, middle, long] = averages;
    [damped(short, 1884), damped(middle, 2014), damped(long, 2037)]
}

/// The number of samples in twenty seconds.
const SAMPLES: usize = 5;
/// More threads than the machine has CPUs, so that its other load is small in comparison.
const BUSY: usize = 12;

/// The averages after each of `SAMPLES` task scans that found all threads, and at the last one, the machine's
/// by the agent and by the kernel.
struct Followed {
    averages: Vec<[u64; 3]>,
    ours: f64,
    kernels: f64,
    at: Instant,
}

fn follow(watcher: &Watcher, name: &str) -> Followed {
    let mut averages: Vec<[u64; 3]> = Vec::new();
    loop {
        let (next, snapshot) = until("another sample", || {
            let snapshot = watcher.agent.snapshot();
            let SchedSample { threads: Some(threads), load: Some(load), .. } = sched(&snapshot, name) else {
                return None;
            };
            let is_next = threads.load == BUSY as u64 && averages.last() != Some(&load.fixed);
            is_next.then_some((load.fixed, snapshot))
        });
        averages.push(next);
        if averages.len() == SAMPLES {
            let (ours, kernels, at) = (our_average(&snapshot), kernels_average(), Instant::now());
            return Followed { averages, ours, kernels, at };
        }
    }
}

/// What each watcher sees in the same time.
fn at_once<T: Send>(watchers: &[Watcher], see: impl Fn(&Watcher) -> T + Sync) -> Vec<T> {
    thread::scope(|scope| {
        let see = &see;
        let seen: Vec<_> = watchers.iter().map(|watcher| scope.spawn(move || see(watcher))).collect();
        seen.into_iter().map(|seen| seen.join().expect("it does not panic")).collect()
    })
}

/// The machine's one-minute load average from `/proc/loadavg`.
fn kernels_average() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").expect("/proc/loadavg");
    text.split(' ').next().expect("a number").parse().expect("a number")
}

#[test]
fn a_load_average_follows_the_kernels_arithmetic() {
    let _host = host();
    let watchers = watchers("sched");
    let cgroup = Cgroup::new("load");
    let begun = Instant::now();
    let before = kernels_average();
    let ours_before: Vec<_> = watchers.iter().map(|watcher| our_average(&watcher.agent.snapshot())).collect();
    let _load = Load::running(&cgroup, &cpus(), || process::in_threads(BUSY, process::spin));
    let seen = at_once(&watchers, |watcher| follow(watcher, &cgroup.name));
    for ((watcher, followed), ours_before) in watchers.iter().zip(&seen).zip(ours_before) {
        let Followed { averages, ours, kernels, at } = followed;
        figure(&format!("{}: {averages:?}", watcher.mode.name()));
        for pair in averages.windows(2) {
            // A sample that is late counts for two, and this test may miss one.
            let next = successors(Some(pair[0]), |averages| Some(one_more(*averages, BUSY as u64)));
            assert!(next.skip(1).take(3).any(|next| next == pair[1]), "{pair:?}");
        }
        compare_machine([*ours, *kernels], before - ours_before, at.duration_since(begun));
    }
}

/// The number of threads that each of several task scans counted as load.
fn loads(watcher: &Watcher, name: &str, scans: usize) -> Vec<u64> {
    let (mut loads, mut seen) = (Vec::new(), None);
    while loads.len() < scans {
        let (passes, load) = until("another scan", || {
            let snapshot = watcher.agent.snapshot();
            let scan = snapshot.agent.scans.iter().find(|scan| scan.scan == "sched_scan")?;
            let threads = sched(&snapshot, name).threads?;
            (seen != Some(scan.passes)).then_some((scan.passes, threads.load))
        });
        // The first scan may be older than what is to be seen.
        if seen.replace(passes).is_some() {
            loads.push(load);
        }
    }
    loads
}

/// The kernel takes throttled threads off the run queues, and its own load average leaves them out.
#[test]
fn throttled_threads_are_no_load() {
    const SCANS: usize = 4;
    let _host = host();
    let watchers = watchers("sched");
    let cgroup = Cgroup::new("throttled");
    let _load = Load::running(&cgroup, &cpus(), || process::in_threads(BUSY, process::spin));
    until_in_proc(&cgroup, &Letters::from([('R', BUSY as u64)]));
    cgroup.set_quota(Quota { quota_us: 1_000, period_us: 100_000 });
    let seen = at_once(&watchers, |watcher| loads(watcher, &cgroup.name, SCANS));
    for (watcher, loads) in watchers.iter().zip(seen) {
        figure(&format!("{}: {loads:?} of {BUSY} threads", watcher.mode.name()));
        // They run for some of every hundred milliseconds at most.
        let during_a_run = loads.iter().filter(|load| **load > 0).count();
        assert!(during_a_run <= SCANS / 2, "{}: {loads:?}", watcher.mode.name());
    }
}

/// The agent's one-minute load average: the sum over all workloads.
fn our_average(snapshot: &Snapshot) -> f64 {
    let loads = snapshot.workloads.iter().filter_map(|row| row.sched.as_ref()?.load);
    loads.map(|load| load.each()[0].1).sum()
}

/// The two averages differed by `difference` before, which has decayed since. They are sampled at different
/// times, so one sample more or less and other short loads are tolerated.
fn compare_machine([ours, kernels]: [f64; 2], difference: f64, took: Duration) {
    const DAMPING: f64 = 1884.0 / 2048.0;
    const INTERVAL_SECONDS: f64 = 5.0;
    /// One sample moves an average by this part of its distance from the load.
    const STEP: f64 = 1.0 - DAMPING;
    let expected = ours + difference * DAMPING.powf(took.as_secs_f64() / INTERVAL_SECONDS);
    let tolerance = STEP * (BUSY as f64 + difference.abs()) + 1.0;
    figure(&format!("machine: ours {ours:.2}, {difference:.2} before makes {expected:.2}, kernel {kernels}"));
    assert!((expected - kernels).abs() <= tolerance, "{expected} {kernels}");
    assert!(ours > STEP * BUSY as f64 + 1.0, "the load is larger than what is tolerated: {ours}");
}
