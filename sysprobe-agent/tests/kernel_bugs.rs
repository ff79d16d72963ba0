//! Provokes known kernel bugs: the agent's numbers must still be right, and it must count what it cannot
//! measure.

#[path = "blame/dividing.rs"]
mod dividing;
mod support;

use std::fs::{self, File};
use std::net::UdpSocket;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use support::agent::{self, Agent};
use support::attach_modes::{Watcher, kernel};
use support::cgroup::Cgroup;
use support::process::{self, Load, cpus};
use support::totals::{Totals, lost, workload};
use support::{SharedNumbers, figure, left_out, shared, until};
use sysprobe_agent::snapshot::SchedSample;

/// Enough to make it likely that one blocks before its turn.
const SLEEPERS: usize = 8;

/// How many times each of them has gone to sleep, in shared memory.
#[derive(Default)]
struct Naps([AtomicU64; SLEEPERS]);

// SAFETY: atomic numbers, for which zero is a value.
unsafe impl SharedNumbers for Naps {}

const NAP: Duration = Duration::from_millis(600);

/// Runs for a part of its first slice and sleeps. It wakes up with a lag of zero, so the lag is negative when
/// it blocks.
fn nap(naps: &AtomicU64) {
    loop {
        process::use_cpu(Duration::from_millis(1));
        naps.fetch_add(1, Ordering::Release);
        thread::sleep(NAP);
    }
}

fn waits(watcher: &Watcher, cgroup: &Cgroup) -> SchedSample {
    let snapshot = watcher.agent.snapshot();
    workload(&snapshot, &cgroup.name).and_then(|known| known.sched.clone()).unwrap_or_default()
}

/// A load that naps, and that is moved to another CPU whenever it has just gone to sleep.
struct Sleeper {
    load: Load,
    naps: &'static AtomicU64,
    known: u64,
    /// When it was moved, and its wait time until then.
    moved: Option<(Instant, u64)>,
}

impl Sleeper {
    fn new(cgroup: &Cgroup, naps: &'static AtomicU64, cpu: usize) -> Self {
        Self { load: Load::stopped(cgroup, &[cpu], || nap(naps)), naps, known: 0, moved: None }
    }

    /// The wait time that the kernel has counted since the move, once the load has slept long enough.
    fn follow(&mut self, here: usize, there: usize) -> Option<u64> {
        if let Some((moved, waited)) = self.moved {
            if moved.elapsed() < NAP + NAP / 2 {
                return None;
            }
            (self.moved, self.known) = (None, self.naps.load(Ordering::Acquire));
            self.load.move_to(here);
            return Some(self.load.totals().wait_ns - waited);
        }
        if self.naps.load(Ordering::Acquire) != self.known {
            let waited = self.load.totals().wait_ns;
            self.load.move_to(there);
            self.moved = Some((Instant::now(), waited));
        }
        None
    }
}

/// The wait time that the kernel has counted for all of them.
fn counted(sleepers: &[Sleeper], spinner: &Load) -> u64 {
    let all = sleepers.iter().map(|sleeper| &sleeper.load).chain([spinner]);
    all.map(|load| load.totals().wait_ns).sum()
}

/// Gives the calling thread a high priority on one CPU, so that it reacts at once on a busy machine.
fn be_quick(cpu: usize) {
    process::move_this_thread_to(cpu);
    // SAFETY: plain numbers; 0 is the calling thread. Where it is refused, it takes more attempts.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) };
}

/// From 6.12 on, a task that blocks before its turn stays on the run queue for a while (`sched_delayed`). If
/// it is migrated meanwhile, the kernel counts the rest of its sleep as a wait for the new CPU.
#[test]
fn a_sleep_that_the_kernel_counts_as_a_wait_is_no_wait_and_no_neighbour_is_blamed() {
    const SLEEPS: u64 = 3;
    const PATIENCE: Duration = Duration::from_secs(80);
    const HALF_A_NAP: u64 = 300_000_000;
    if kernel() < (6, 12) {
        return left_out("delayed sleepers", "this kernel has none");
    }
    let all = cpus();
    let [here, there, ..] = all[..] else { return left_out("delayed sleepers", "there is one CPU") };
    let watchers = dividing::alone();
    let sleepers = Cgroup::new("sleepers");
    let neighbour = Cgroup::new("neighbour");
    // Keeps its real waits short on a busy machine.
    sleepers.set_weight_high();
    let naps: &Naps = shared();
    let mut loads: Vec<_> = naps.0.iter().map(|naps| Sleeper::new(&sleepers, naps, here)).collect();
    // While it has the CPU, a sleeper that blocks before its turn stays on the run queue.
    let spinner = Load::stopped(&sleepers, &[here], process::spin);
    let _neighbour = Load::running(&neighbour, &[there], process::spin);
    let before: Vec<_> = watchers.iter().map(|watcher| waits(watcher, &sleepers)).collect();
    let lost_before: Vec<_> =
        watchers.iter().map(|watcher| lost(&watcher.agent.snapshot(), "sched", "delayed_sleeper")).collect();
    let counted_before = counted(&loads, &spinner);
    // On the sleepers' CPU, it would often wait for longer than a sleeper stays on the run queue.
    be_quick(there);
    spinner.resume();
    for sleeper in &loads {
        sleeper.load.resume();
    }
    let (start, mut miscounted, mut slept) = (Instant::now(), 0, 0);
    while miscounted < SLEEPS && start.elapsed() < PATIENCE {
        let waits = loads.iter_mut().filter_map(|sleeper| sleeper.follow(here, there));
        for waited in waits.filter(|waited| *waited > HALF_A_NAP) {
            (miscounted, slept) = (miscounted + 1, slept + waited);
        }
    }
    for sleeper in &loads {
        sleeper.load.freeze();
    }
    spinner.freeze();
    let real = counted(&loads, &spinner) - counted_before - slept;
    figure(&format!("sleeps that the kernel counted as waits: {miscounted}; waits beside them: {real} ns"));
    if miscounted == 0 {
        return left_out("delayed sleepers", "this kernel counts no sleep as a wait");
    }
    for ((watcher, before), lost_before) in watchers.iter().zip(&before).zip(lost_before) {
        let ours = waits(watcher, &sleepers).since(before).expect("totals grow");
        let blamed: u64 = ours
            .blame
            .culprits
            .iter()
            .filter(|(who, _)| who.container == neighbour.name)
            .map(|(_, ns)| ns)
            .sum();
        let lost = lost(&watcher.agent.snapshot(), "sched", "delayed_sleeper") - lost_before;
        let name = watcher.mode.name();
        figure(&format!("{name}: neighbour blamed for {blamed} ns, {lost} counted"));
        assert!(ours.wait.sum_ns < real + HALF_A_NAP, "{name}: waits of {} ns", ours.wait.sum_ns);
        assert!(lost >= miscounted, "{name}: {lost} of {miscounted} are counted");
        let causes = ours.causes.expect("it waited").total_ns();
        assert_eq!(causes, ours.wait.sum_ns, "{name}: what is left of the waits has causes");
    }
}

/// Reads a file in memory as often as possible.
fn read_often(file: &File) {
    loop {
        for _ in 0..1000 {
            drop(file.read_at(&mut [0; 64], 0));
        }
    }
}

/// Preempts the current task for a moment, as often as possible.
fn interrupt_often() {
    let priority = libc::sched_param { sched_priority: 1 };
    // SAFETY: plain numbers and a pointer to one that lives; 0 is the calling thread. Where it is refused,
    // the kernel's own choice is nearly as good.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const priority) };
    loop {
        thread::sleep(Duration::from_micros(100));
    }
}

/// The kernel's preemption mode, if it can be changed at run time.
const PREEMPTION: &str = "/sys/kernel/debug/sched/preempt";

/// Makes the kernel preempt its own code until this is dropped.
struct Preempting(String);

impl Preempting {
    fn begin() -> Option<Self> {
        let text = fs::read_to_string(PREEMPTION).ok()?;
        let (_, chosen) = text.split_once('(')?;
        let before = chosen.split_once(')')?.0.to_owned();
        fs::write(PREEMPTION, "full").ok()?;
        Some(Self(before))
    }
}

impl Drop for Preempting {
    fn drop(&mut self) {
        fs::write(PREEMPTION, &self.0).expect("what could be chosen can be chosen again");
    }
}

/// From 5.13 to 6.1, a program cannot access task storage while another program's storage call is in progress
/// on the same CPU. Here the scheduler's programs hit that when a reader is preempted within a `vfs` program.
#[test]
fn a_storage_that_is_busy_is_no_unknown_task_and_no_tasks_are_gone_over() {
    /// Other kernels lack the bug, and tasks may be unknown there for other reasons.
    const KERNELS: Range<(u32, u32)> = (5, 13)..(6, 2);
    const ENOUGH: u64 = 10;
    /// Longer than the interval between two scans of all tasks.
    const A_WALK: Duration = Duration::from_secs(12);
    if !KERNELS.contains(&kernel()) {
        return left_out("a storage that is busy", "this kernel does not have the bug");
    }
    let _alone = dividing::turn();
    let Some(_preempting) = Preempting::begin() else {
        return left_out("a storage that is busy", "this kernel does not preempt itself");
    };
    let agent =
        Agent::configured(&format!("program_statistics = true\n{}", agent::with_only(&["sched", "vfs"])));
    let cgroup = Cgroup::new("storage-readers");
    let place = tempfile::tempfile_in("/dev/shm").expect("a file in memory");
    place.set_len(4096).expect("it has something to be read");
    let all = cpus();
    let reader = |cpu: &usize| Load::running(&cgroup, &[*cpu], || read_often(&place));
    let _readers: Vec<_> = all.iter().map(reader).collect();
    let _interrupters: Vec<_> =
        all.iter().map(|cpu| Load::running(&cgroup, &[*cpu], interrupt_often)).collect();
    let state = || {
        let snapshot = agent.snapshot();
        let seeds = snapshot.agent.programs.iter().find(|program| program.program == "sched_seed");
        let of = |reason| lost(&snapshot, "sched", reason);
        ((of("unknown_task"), seeds.map(|seed| seed.runs)), of("task_storage_busy"))
    };
    // A fork that finds the storage busy leaves a task unknown until the next scan.
    let (before, busy_before) = until("no task is unknown for longer than until the next walk", || {
        let before = state();
        thread::sleep(A_WALK);
        (before.0 == state().0).then_some(before)
    });
    until("the storage has been busy", || {
        let ((unknown, _), busy) = state();
        (unknown + busy - before.0 - busy_before >= ENOUGH).then_some(())
    });
    thread::sleep(A_WALK);
    let (after, busy) = state();
    figure(&format!(
        "unknown tasks and those walked over: {before:?}, then {after:?}; busy {busy_before}, then {busy}"
    ));
    assert_eq!(after, before, "no task is unknown, and nothing was gone over");
}

/// The process id of a CPU's ksoftirqd thread.
fn softirq_thread(cpu: usize) -> Option<i32> {
    let name = format!("ksoftirqd/{cpu}\n");
    let processes = fs::read_dir("/proc").expect("/proc");
    let mut numbers = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    let named = |pid: &i32| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|own| own == name);
    numbers.find(named)
}

/// A CPU that has never been online, if there is one.
fn fresh_cpu() -> Option<usize> {
    let exists = |cpu: &usize| Path::new(&format!("/sys/devices/system/cpu/cpu{cpu}/online")).exists();
    (1..64).filter(exists).find(|cpu| softirq_thread(*cpu).is_none())
}

/// Sends datagrams to a closed local port: each one causes a softirq, and so does its answer.
fn send_often() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let closed = UdpSocket::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    loop {
        drop(socket.send_to(b"x", closed));
    }
}

/// Before 6.4, a kernel thread starts under another name.
#[test]
fn softirqs_of_a_cpu_that_comes_up_later_are_interrupts() {
    const ENOUGH_NS: u64 = 300_000_000;
    if kernel() >= (6, 4) {
        return left_out(
            "a new CPU's softirqs",
            "kernel threads are born with their names, and this one rarely runs",
        );
    }
    let Some(cpu) = fresh_cpu() else {
        return left_out(
            "a new CPU's softirqs",
            "every CPU has been online (a guest with maxcpus=1 has one left)",
        );
    };
    let watchers = dividing::watchers();
    fs::write(format!("/sys/devices/system/cpu/cpu{cpu}/online"), "1").expect("the CPU comes up");
    let daemon = until("the CPU has its thread for softirqs", || softirq_thread(cpu));
    let victim = Cgroup::new("softirq-victim");
    let senders = Cgroup::new("softirq-senders");
    let _victim = Load::running(&victim, &[cpu], process::spin);
    let _senders: Vec<_> = (0..4).map(|_| Load::running(&senders, &[cpu], send_often)).collect();
    let ran = || Totals::of_process(daemon).on_cpu_ns;
    let before: Vec<_> = watchers.iter().map(|watcher| (waits(watcher, &victim), ran())).collect();
    let start = ran();
    until("the thread has run", || (ran() - start > ENOUGH_NS).then_some(()));
    for (watcher, (before, ran_before)) in watchers.iter().zip(&before) {
        let ran = ran() - ran_before;
        let causes = waits(watcher, &victim).since(before).and_then(|ours| ours.causes).expect("it waited");
        figure(&format!("{}: ksoftirqd ran {ran} ns: {causes:?}", watcher.mode.name()));
        assert!(causes.interrupt_ns > ran / 2, "{ran} {causes:?}");
        assert!(causes.kernel_ns < ran / 4, "{ran} {causes:?}");
    }
}
