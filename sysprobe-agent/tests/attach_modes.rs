//! Compares attach modes with each other: agents with different ones measure the same load at the same time
//! and must report the same.
//!
//! One test has counts that others would disturb, so each test takes [`HOST`] before it creates a cgroup.

mod support;

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use support::attach_modes::{Watcher, watchers};
use support::cgroup::Cgroup;
use support::process::{self, Load, cpus};
use support::totals::{Totals, lost, missed_runs};
use support::{SharedNumbers, figure, shared, until, within};
use sysprobe_agent::probe::AttachMode;
use sysprobe_agent::snapshot::Snapshot;

/// The right to create cgroups.
static HOST: Mutex<()> = Mutex::new(());

fn host() -> MutexGuard<'static, ()> {
    // A test that failed has cleaned up too.
    HOST.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How far a thread's CPU time lags at `rcu_note_context_switch`. The kernel updates the total once per tick
/// (10 ms at most), and after this hook. Doubled for a tick that comes late.
const LAG_NS: u64 = 20_000_000;

/// The scheduler tests' view of a watcher.
trait Watches {
    fn is_exact(&self) -> bool;
    fn totals(&self, cgroup: &Cgroup) -> Totals;
}

impl Watches for Watcher {
    /// Whether a switch is accounted when it is counted, with everything before it; at a function's entry it
    /// is not.
    fn is_exact(&self) -> bool {
        matches!(self.mode, AttachMode::TpBtf | AttachMode::RawTp)
    }

    fn totals(&self, cgroup: &Cgroup) -> Totals {
        Totals::of_workload(&self.agent.snapshot(), &cgroup.name)
    }
}

/// The numbers that the fork loop and its children report, in shared memory.
#[derive(Default)]
struct Said {
    ended: AtomicU64,
    /// The children's CPU time before their last sleep.
    on_cpu_ns: AtomicU64,
}

// SAFETY: atomic numbers, for which zero is a value.
unsafe impl SharedNumbers for Said {}

const CHILDREN: u64 = 100;

impl Said {
    fn fork_loop(&self) {
        for _ in 0..CHILDREN {
            process::in_child(|| self.short_task());
            self.ended.fetch_add(1, Ordering::Relaxed);
        }
        // Stays alive, so that it can be frozen.
        loop {
            thread::sleep(Duration::from_secs(1));
        }
    }

    /// Two slices of work, and one that only ends the task.
    fn short_task(&self) {
        process::spin_for(Duration::from_micros(500));
        thread::sleep(Duration::from_micros(100));
        process::spin_for(Duration::from_micros(500));
        self.on_cpu_ns.fetch_add(process::own_cpu_ns(), Ordering::Relaxed);
        thread::sleep(Duration::from_micros(100));
    }
}

/// The loads, with all sides' numbers from before they began.
struct Scene {
    watchers: Vec<Watcher>,
    cgroups: [Cgroup; 3],
    loads: [Load; 3],
    kernel: [Totals; 3],
    /// The totals before the start, by watcher.
    before: Vec<[Totals; 3]>,
    usage: u64,
    said: &'static Said,
}

const SPINNER: usize = 0;
const SLEEPER: usize = 1;
const FORKS: usize = 2;

impl Scene {
    fn new() -> Self {
        let watchers = watchers("sched");
        let cgroups = ["modes-spinner", "modes-sleeper", "modes-forks"].map(Cgroup::new);
        let said: &Said = shared();
        let (all, one) = (cpus(), &cpus()[..1]);
        let loads = [
            Load::stopped(&cgroups[SPINNER], one, process::spin),
            Load::stopped(&cgroups[SLEEPER], one, process::sleep_often),
            Load::stopped(&cgroups[FORKS], &all, || said.fork_loop()),
        ];
        let kernel = loads.each_ref().map(Load::totals);
        let before = watchers.iter().map(|watcher| cgroups.each_ref().map(|cgroup| watcher.totals(cgroup)));
        let (before, usage) = (before.collect(), cgroups[FORKS].usage_ns());
        Self { watchers, cgroups, loads, kernel, before, usage, said }
    }

    fn so_far(&self, at: usize) -> Totals {
        self.loads[at].totals().since(self.kernel[at])
    }

    fn run(&self) {
        self.loads.iter().for_each(Load::resume);
        until("all have run and waited", || {
            let (spun, slept) = (self.so_far(SPINNER), self.so_far(SLEEPER));
            let enough = spun.on_cpu_ns > 300_000_000 && spun.involuntary > 20 && slept.voluntary > 200;
            (enough && self.said.ended.load(Ordering::Relaxed) == CHILDREN).then_some(())
        });
        self.loads.iter().for_each(Load::freeze);
    }

    /// Each watcher's totals of a load since the start.
    fn gathered(&self, at: usize) -> Vec<(&Watcher, Totals)> {
        let gathered = self.watchers.iter().zip(&self.before);
        gathered
            .map(|(watcher, before)| (watcher, watcher.totals(&self.cgroups[at]).since(before[at])))
            .collect()
    }
}

/// Executes `sleep`. It only returns if it fails.
fn become_sleep() {
    let arguments = [c"sleep".as_ptr(), c"1000".as_ptr(), std::ptr::null()];
    // SAFETY: the addresses are of live values.
    unsafe { libc::execv(c"/bin/sleep".as_ptr(), arguments.as_ptr()) };
}

/// A thread that calls `execve` takes over the process ID and the start time of the first thread.
#[test]
fn a_thread_that_takes_over_its_process_is_counted_once() {
    /// The slice in which the process enters the cgroup, and the last one at a function's entry.
    const SLICES: f64 = 0.1;
    let _host = host();
    let watchers = watchers("sched");
    let cgroup = Cgroup::new("modes-exec");
    let load = Load::running(&cgroup, &cpus(), || {
        thread::spawn(|| {
            process::use_cpu(Duration::from_millis(300));
            become_sleep();
        });
        thread::sleep(Duration::from_secs(1000));
    });
    let comm = format!("/proc/{}/comm", load.pid);
    until("it is another program", || (fs::read_to_string(&comm).ok()?.trim() == "sleep").then_some(()));
    let truth = until("it rests", || cgroup.usage_at_rest());
    for watcher in &watchers {
        let ours = watcher.totals(&cgroup).on_cpu_ns;
        figure(&format!("{}: {ours} of {truth} ns", watcher.mode.name()));
        assert!(within(SLICES, ours, truth), "{}: {ours} of {truth} ns", watcher.mode.name());
    }
}

#[test]
fn all_attach_modes_tell_the_kernels_numbers_of_one_load() {
    let _host = host();
    let scene = Scene::new();
    scene.run();
    for at in [SPINNER, SLEEPER] {
        let truth = scene.so_far(at);
        figure(&format!("{}: kernel {truth:?}", scene.cgroups[at].name));
        assert!(truth.wait_ns > 0 && truth.on_cpu_ns > 0, "it waited and ran");
        for (watcher, ours) in scene.gathered(at) {
            figure(&format!("  {}: {ours:?}", watcher.mode.name()));
            if watcher.is_exact() {
                assert_eq!(ours, truth, "{}", watcher.mode.name());
            } else {
                assert_lags(ours, truth, missed_runs(&watcher.agent.snapshot(), "sched"));
            }
        }
    }
    let truth =
        until("the last child has left its CPU", || scene.cgroups[FORKS].usage_at_rest()) - scene.usage;
    compare_forks(&scene.gathered(FORKS), truth, scene.said.on_cpu_ns.load(Ordering::Relaxed));
    for watcher in &scene.watchers {
        let snapshot = watcher.agent.snapshot();
        for reason in ["backwards_clock", "unreadable_cgroup", "unreadable_task"] {
            assert_eq!(lost(&snapshot, "sched", reason), 0, "{}: {reason}", watcher.mode.name());
        }
    }
}

/// Waits and arrivals of a thread are complete when it passes the hook for the last time. The last time on
/// the CPU and the final switch are not: both may be missing, at the start and at the end. If the kernel
/// skips a run of the program, the next run counts two waits as one arrival.
fn assert_lags(ours: Totals, truth: Totals, missed: u64) {
    assert_eq!(ours.wait_ns, truth.wait_ns);
    assert!(
        (ours.arrivals..=ours.arrivals + missed).contains(&truth.arrivals),
        "{ours:?} {truth:?} {missed}"
    );
    assert!(ours.on_cpu_ns.abs_diff(truth.on_cpu_ns) <= LAG_NS, "{ours:?} {truth:?}");
    assert!(ours.voluntary.abs_diff(truth.voluntary) <= 1, "{ours:?} {truth:?}");
    assert!(ours.involuntary.abs_diff(truth.involuntary) <= 1, "{ours:?} {truth:?}");
}

/// For children that have ended, the kernel keeps only their CPU time; the rest is compared between attach
/// modes. Attach modes that see task migrations leave out, and count, sleeps that the kernel counts as waits.
fn compare_forks(gathered: &[(&Watcher, Totals)], usage: u64, said: u64) {
    figure(&format!("forks: kernel's usage {usage}, of which the children said {said}"));
    for (watcher, ours) in gathered {
        figure(&format!("  {}: {ours:?}", watcher.mode.name()));
    }
    let exact = gathered.iter().find(|(watcher, _)| watcher.is_exact());
    let (watcher, reference) = exact.expect("raw_tp is on every kernel");
    let left_out = lost(&watcher.agent.snapshot(), "sched", "delayed_sleeper");
    assert!(within(0.001, reference.on_cpu_ns, usage), "both add up the same slices: {reference:?} {usage}");
    assert!(reference.arrivals >= CHILDREN, "each of them arrived on a CPU");
    for (watcher, ours) in gathered {
        if watcher.is_exact() {
            assert_eq!(ours, reference, "{}", watcher.mode.name());
            continue;
        }
        // As in `assert_lags`, for every child: everything before its last slice is complete.
        let missed = missed_runs(&watcher.agent.snapshot(), "sched");
        let more = (ours.arrivals + missed).checked_sub(reference.arrivals);
        let more = more.expect("what is left out is left out there");
        assert!(more <= left_out + missed, "{more} more, {left_out} are left out, {missed} missed");
        // After such a sleep, the arrival is counted all the same if the task was moved once more after it
        // was woken.
        let is_more = left_out > 0 && ours.wait_ns > reference.wait_ns;
        assert!(
            ours.wait_ns == reference.wait_ns || is_more,
            "{ours:?} {reference:?}, {left_out} are left out"
        );
        assert!(ours.on_cpu_ns >= said && ours.on_cpu_ns <= usage + LAG_NS, "{ours:?} {said} {usage}");
        let switches = |totals: &Totals| totals.voluntary + totals.involuntary;
        assert!(switches(ours).abs_diff(switches(reference)) <= CHILDREN + 1, "{ours:?} {reference:?}");
    }
}

#[test]
fn all_attach_modes_hear_the_same_births_and_deaths() {
    const COUNT: u64 = 200;
    let _host = host();
    let watchers = watchers("cgroup");
    // Another process may create cgroups at the same time, which can only increase the counts. One attempt
    // without such a process is enough.
    for attempt in 1..=5 {
        let before: Vec<_> = watchers.iter().map(|watcher| watcher.agent.snapshot()).collect();
        for first in (0..COUNT).step_by(20) {
            let batch: Vec<_> = (first..first + 20).map(|at| Cgroup::new(&format!("modes-{at}"))).collect();
            // Not a creation, although it calls the same functions.
            batch.iter().for_each(Cgroup::enable_controllers_below);
        }
        let after: Vec<_> = watchers.iter().map(|watcher| watcher.agent.snapshot()).collect();
        let heard: Vec<_> = after.iter().zip(&before).map(|(after, before)| heard(after, before)).collect();
        for ((watcher, (born, died)), after) in watchers.iter().zip(&heard).zip(&after) {
            // A kernel that preempts programs skips the next run of the same program on the CPU, and counts
            // it.
            let missed = missed_runs(after, "cgroup");
            let name = watcher.mode.name();
            figure(&format!("{name}: {born} born, {died} died of {COUNT}, {missed} runs missed"));
            assert!(born + missed >= COUNT && died + missed >= COUNT, "{name} missed some");
        }
        if heard.iter().all(|counts| *counts == (COUNT, COUNT)) {
            return;
        }
        assert!(attempt < 5, "never what there were: {heard:?}");
    }
}

/// Creations and removals since `before`.
fn heard(now: &Snapshot, before: &Snapshot) -> (u64, u64) {
    let (now, before) = (&now.agent, &before.agent);
    (now.cgroups_born - before.cgroups_born, now.cgroups_died - before.cgroups_died)
}
