//! Scheduler numbers of cgroups compared with the kernel's own, for known loads.
//!
//! A load is stopped before both sides are read, so that nothing changes between the two reads. Counts from
//! before the load began are subtracted on both sides.

mod support;

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use support::agent::Agent;
use support::cgroup::Cgroup;
use support::hidden::count_all;
use support::process::{self, Load, cpus};
use support::totals::{Totals, lost};
use support::{SharedNumbers, figure, shared, until, within};

/// For tasks that have ended, the kernel keeps only their cgroup's CPU time. It adds up the same slices; the
/// v2 file shows whole microseconds.
const SAME_SLICES: f64 = 0.001;

/// One load under test, with both sides' numbers from before it began.
struct Case {
    cgroup: Cgroup,
    load: Load,
    kernel: Totals,
    agent: Totals,
}

impl Case {
    fn new(agent: &Agent, name: &str, cpus: &[usize], body: impl FnOnce()) -> Self {
        let cgroup = Cgroup::new(name);
        let load = Load::stopped(&cgroup, cpus, body);
        let kernel = load.totals();
        let agent = Totals::of_workload(&agent.snapshot(), &cgroup.name);
        Self { cgroup, load, kernel, agent }
    }

    fn so_far(&self) -> Totals {
        self.load.totals().since(self.kernel)
    }

    /// Checks that the kernel's numbers and the agent's are equal for a frozen load: once all threads are off
    /// their CPUs, everything is accounted.
    fn assert_same(&self, agent: &Agent) {
        let truth = self.so_far();
        let snapshot = agent.snapshot();
        let ours = Totals::of_workload(&snapshot, &self.cgroup.name).since(self.agent);
        figure(&format!("{}: agent {ours:?}, kernel {truth:?}", self.cgroup.name));
        assert!(truth.on_cpu_ns > 0 && truth.arrivals > 0, "the load did something: {truth:?}");
        truth.assert_told_by(ours, lost(&snapshot, "sched", "delayed_sleeper"));
    }
}

#[test]
fn a_spinner_and_a_sleeper_on_one_cpu_have_the_kernels_numbers() {
    let agent = Agent::start();
    let one = &cpus()[..1];
    let spinner = Case::new(&agent, "spinner", one, process::spin);
    let sleeper = Case::new(&agent, "sleeper", one, process::sleep_often);
    spinner.load.resume();
    sleeper.load.resume();
    until("both have run and waited", || {
        let (spun, slept) = (spinner.so_far(), sleeper.so_far());
        (spun.on_cpu_ns > 300_000_000 && spun.involuntary > 20 && slept.voluntary > 200).then_some(())
    });
    spinner.load.freeze();
    sleeper.load.freeze();
    assert!(spinner.so_far().wait_ns > 0 && sleeper.so_far().wait_ns > 0, "they shared the CPU");
    spinner.assert_same(&agent);
    sleeper.assert_same(&agent);
}

#[test]
fn threads_that_outnumber_and_change_cpus_have_the_kernels_numbers() {
    let agent = Agent::start();
    let all = cpus();
    let threads = 2 * all.len() + 1;
    let spinners = Case::new(&agent, "spinners", &all, move || process::in_threads(threads, process::spin));
    let sleepers =
        Case::new(&agent, "sleepers", &all, move || process::in_threads(threads, process::sleep_often));
    spinners.load.resume();
    sleepers.load.resume();
    until("all have run and waited", || {
        let (spun, slept) = (spinners.so_far(), sleepers.so_far());
        (spun.on_cpu_ns > 500_000_000 && spun.involuntary > 50 && slept.voluntary > 500).then_some(())
    });
    spinners.load.freeze();
    sleepers.load.freeze();
    spinners.assert_same(&agent);
    sleepers.assert_same(&agent);
}

/// The numbers that a pool's threads report about themselves before they end, in shared memory.
#[derive(Default)]
struct Said {
    on_cpu_ns: AtomicU64,
    wait_ns: AtomicU64,
    arrivals: AtomicU64,
}

// SAFETY: atomic numbers, for which zero is a value.
unsafe impl SharedNumbers for Said {}

impl Said {
    /// Adds the calling thread's current numbers.
    fn add_own(&self) {
        let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        let mut numbers = text.split_whitespace().map_while(|number| number.parse().ok());
        for sum in [&self.on_cpu_ns, &self.wait_ns, &self.arrivals] {
            sum.fetch_add(numbers.next().unwrap_or(0), Ordering::Relaxed);
        }
    }

    fn pool(&self) {
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        process::spin_for(Duration::from_millis(1));
                        thread::sleep(Duration::from_micros(100));
                    }
                    self.add_own();
                });
            }
        });
    }
}

#[test]
fn threads_that_end_leave_their_numbers_behind() {
    // A hidden fork makes a task that the agent does not know.
    count_all(end_many_threads);
}

fn end_many_threads() {
    let agent = Agent::start();
    let said: &Said = shared();
    let case = Case::new(&agent, "pool", &cpus(), || {
        for _ in 0..4 {
            said.pool();
        }
        said.add_own();
    });
    let before = agent.snapshot();
    let cgroup = case.cgroup;
    let used_before = cgroup.usage_ns();
    case.load.resume();
    case.load.finish();
    let used = until("the last thread has left its CPU", || cgroup.usage_at_rest()) - used_before;
    let snapshot = agent.snapshot();
    let ours = Totals::of_workload(&snapshot, &cgroup.name).since(case.agent);
    let of = |sum: &AtomicU64, before: u64| sum.load(Ordering::Relaxed) - before;
    let on_cpu = of(&said.on_cpu_ns, case.kernel.on_cpu_ns);
    let wait = of(&said.wait_ns, case.kernel.wait_ns);
    let arrivals = of(&said.arrivals, case.kernel.arrivals);
    let lost_since = |reason| lost(&snapshot, "sched", reason) - lost(&before, "sched", reason);
    let left_out = lost_since("delayed_sleeper");
    figure(&format!(
        "pool: agent {ours:?}, kernel's usage {used}, threads {on_cpu} {wait} {arrivals}, {left_out} left out"
    ));
    assert!(within(SAME_SLICES, ours.on_cpu_ns, used), "{ours:?} {used}");
    // After its report, a thread still runs and may wait for some microseconds until it ends.
    assert!(ours.on_cpu_ns >= on_cpu, "{ours:?} {on_cpu}");
    // The agent leaves out and counts sleeps that the kernel counts as waits (Linux 6.12).
    assert!(left_out > 0 || ours.wait_ns >= wait, "{ours:?} {wait}");
    assert!(ours.arrivals + left_out >= arrivals, "{ours:?} {arrivals}, {left_out} left out");
}

#[test]
fn two_hundred_short_processes_are_charged_to_the_last_microsecond() {
    let agent = Agent::start();
    let cgroup = Cgroup::new("short");
    let load = Load::stopped(&cgroup, &cpus(), || {
        for _ in 0..200 {
            process::in_child(become_true);
        }
    });
    let (kernel, before) = (cgroup.usage_ns(), agent.snapshot());
    load.resume();
    load.finish();
    let truth = until("the last process has left its CPU", || cgroup.usage_at_rest()) - kernel;
    let now = agent.snapshot();
    let ours = Totals::of_workload(&now, &cgroup.name).since(Totals::of_workload(&before, &cgroup.name));
    figure(&format!("short: agent {ours:?}, kernel's usage {truth}"));
    assert!(within(SAME_SLICES, ours.on_cpu_ns, truth), "{} {truth}", ours.on_cpu_ns);
    assert!(ours.arrivals >= 200, "each of them arrived on a CPU");
    // An `unknown_task` may be any task of this machine; the other losses would explain missing time above.
    for reason in ["backwards_clock", "unreadable_cgroup"] {
        assert_eq!(lost(&now, "sched", reason), lost(&before, "sched", reason), "{reason}");
    }
}

/// The child executes `true`, if the machine has it.
fn become_true() {
    let arguments = [c"true".as_ptr(), std::ptr::null()];
    // SAFETY: the addresses are of live values. It only returns if it fails.
    unsafe { libc::execv(c"/bin/true".as_ptr(), arguments.as_ptr()) };
}

#[test]
fn a_thread_that_never_leaves_its_cpu_is_seen_to_run() {
    const ENOUGH_NS: u64 = 50_000_000;
    let agent = Agent::start();
    let all = cpus();
    let case = Case::new(&agent, "alone", &all[all.len() - 1..], || {
        become_urgent();
        process::spin();
    });
    case.cgroup.set_weight_high();
    case.cgroup.allow_real_time();
    case.load.resume();
    let (grown, time) = until("two scrapes without a switch between them", || {
        let (switches, start) = (switches(&case), case.so_far().on_cpu_ns);
        let earlier = Totals::of_workload(&agent.snapshot(), &case.cgroup.name);
        let from = case.so_far().on_cpu_ns;
        thread::sleep(Duration::from_millis(100));
        let to = case.so_far().on_cpu_ns;
        let later = Totals::of_workload(&agent.snapshot(), &case.cgroup.name);
        let end = case.so_far().on_cpu_ns;
        // The agent's flush reads the field that the file shows, so its number lies between two reads of the
        // file.
        let (earlier, later) = (earlier.since(case.agent).on_cpu_ns, later.since(case.agent).on_cpu_ns);
        assert!((start..=from).contains(&earlier), "{start} <= {earlier} <= {from}");
        assert!((to..=end).contains(&later), "{to} <= {later} <= {end}");
        let has_run = to - from >= ENOUGH_NS && switches == self::switches(&case);
        has_run.then_some((later - earlier, end - start))
    });
    figure(&format!("alone: {grown} ns seen of {time} ns"));
}

fn switches(case: &Case) -> u64 {
    let totals = case.load.totals();
    totals.voluntary + totals.involuntary
}

/// Real-time priority, if allowed, so that no other load takes the CPU away.
fn become_urgent() {
    let priority = libc::sched_param { sched_priority: 1 };
    // SAFETY: the address is of a live value.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const priority) };
}

/// Time is charged where the task ran, although nothing is accounted at the time of the move: the task stays
/// on its CPU.
#[test]
fn a_running_task_that_is_moved_is_charged_to_each_cgroup_for_its_time_there() {
    /// One tick (10 ms at most), by which function-based attach modes lag, and one tick by which the kernel's
    /// own number of a running task lags.
    const TOLERANCE_NS: u64 = 20_000_000;
    const STAY_NS: u64 = 300_000_000;
    /// Longer than the tolerance without a switch before the move, so that all of it is still unaccounted.
    const UNBOOKED: Duration = Duration::from_millis(40);
    let agent = Agent::start();
    let all = cpus();
    let case = Case::new(&agent, "moved-from", &all[all.len() - 1..], process::spin);
    let second = Cgroup::new("moved-to");
    // So that other loads rarely take its CPU, which would account its time. A real-time task cannot be moved
    // on every system.
    case.cgroup.set_weight_high();
    second.set_weight_high();
    let ran = || case.so_far().on_cpu_ns;
    case.load.resume();
    until("it has run in the first", || (ran() > STAY_NS).then_some(()));
    until("it runs for a while without a switch", || {
        let switches_before = switches(&case);
        thread::sleep(UNBOOKED);
        (switches(&case) == switches_before).then_some(())
    });
    let switched = switches(&case);
    // The move happens between these two readings.
    let before = ran();
    second.adopt(case.load.pid);
    let after = ran();
    let switched = switches(&case) - switched;
    until("it has run in the second", || (second.usage_ns() > STAY_NS).then_some(()));
    case.load.freeze();
    let snapshot = agent.snapshot();
    let ours = Totals::of_workload(&snapshot, &case.cgroup.name).since(case.agent).on_cpu_ns;
    let ours = [ours, Totals::of_workload(&snapshot, &second.name).on_cpu_ns];
    let total_ns = ran();
    figure(&format!(
        "moved: agent {ours:?}, kernel {before} to {after} of {total_ns}, {switched} switches around the move"
    ));
    assert!((before - TOLERANCE_NS..=after + TOLERANCE_NS).contains(&ours[0]), "{ours:?} {before} {after}");
    assert!((ours[0] + ours[1]).abs_diff(total_ns) <= TOLERANCE_NS, "{ours:?} {total_ns}");
}

#[test]
fn idle_time_is_in_no_workload() {
    /// On a machine that is always busy, idle tasks never run and could not be miscounted.
    const WINDOWS: usize = 8;
    let agent = Agent::start();
    for _ in 0..WINDOWS {
        let start = Instant::now();
        let (before, idle_before) = (agent.snapshot(), idle_ns());
        thread::sleep(Duration::from_millis(500));
        let (after, idle) = (agent.snapshot(), idle_ns() - idle_before);
        let ran = sum_on_cpu(&after) - sum_on_cpu(&before);
        // An upper bound of the time between the two reads, however long the agent waited for a CPU.
        let all = u64::try_from(start.elapsed().as_nanos()).expect("small") * online_cpus();
        let unknown = Totals::of_workload(&after, "unknown").since(Totals::of_workload(&before, "unknown"));
        figure(&format!("idle: ran {ran} + idle {idle} of {all} ns, unknown {}", unknown.on_cpu_ns));
        // If idle tasks were counted, the sum would exceed the total by the idle time. Idle time has a
        // resolution of 10 ms per CPU, and CPU time is current up to the last tick (10 ms at most): a
        // twentieth of such a window.
        assert!(ran + idle <= all + all / 20, "{ran} + {idle} > {all}");
        assert_eq!(unknown.on_cpu_ns, 0, "nothing is unknown");
        if idle > all / 10 {
            return;
        }
    }
}

fn sum_on_cpu(snapshot: &sysprobe_agent::snapshot::Snapshot) -> u64 {
    snapshot
        .workloads
        .iter()
        .filter_map(|workload| workload.sched.as_ref())
        .map(|sched| sched.on_cpu_ns)
        .sum()
}

/// Idle time of all CPUs, iowait included: columns 4 and 5 of the first line, in hundredths of a second.
fn idle_ns() -> u64 {
    let stat = fs::read_to_string("/proc/stat").expect("/proc/stat");
    let numbers = stat.split_whitespace().skip(4).take(2);
    numbers.map(|number| number.parse::<u64>().expect("a number") * 10_000_000).sum()
}

fn online_cpus() -> u64 {
    let stat = fs::read_to_string("/proc/stat").expect("/proc/stat");
    let count = stat.lines().filter(|line| line.starts_with("cpu")).count() - 1;
    count.try_into().expect("few")
}
