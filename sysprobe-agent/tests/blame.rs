//! The reasons why tasks wait for a CPU, for loads with known reasons: the causes add up to the kernel's own
//! total, and the right cgroup is blamed.
//!
//! All attach modes that can tell measure the same load. The load is stopped before the two sides are read.

#[path = "blame/case.rs"]
mod case;
#[path = "blame/dividing.rs"]
mod dividing;
mod support;

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use sysprobe_agent::snapshot::{CausesSample, SchedSample, ThrottleSample, Throttling};

use case::{Case, assert_includes, befores, blamed, divided, run_beside};
use support::attach_modes::Watcher;
use support::cgroup::{Cgroup, Quota};
use support::process::{self, cpus};
use support::totals::workload;
use support::{at_rest, figure, left_out, until};

/// `None` on a machine with one CPU, which is told.
fn two_cpus() -> Option<[usize; 2]> {
    let two = cpus().first_chunk().copied();
    if two.is_none() {
        left_out("waits that end on another CPU", "there is one CPU only");
    }
    two
}

fn close(tolerance: f64, one: u64, other: u64) -> bool {
    support::within(tolerance, one, other)
}

/// All three loads always want the same CPU, so whenever the victim waits, one of the others runs. Each is to
/// blame for the time that it ran.
#[test]
fn two_spinners_are_blamed_for_the_time_that_each_of_them_ran() {
    let watchers = dividing::watchers();
    let one = &cpus()[..1];
    let victim = Case::new("victim", one, process::spin);
    let heavy = Case::new("heavy", one, process::spin);
    let light = Case::new("light", one, process::spin);
    heavy.cgroup.set_weight_79();
    let befores = befores(&watchers, &victim.cgroup);
    let ran = run_beside(&victim, [&heavy, &light]);
    for (watcher, before) in watchers.iter().zip(&befores) {
        let (ours, causes) = divided(watcher, &victim, before);
        for (culprit, ran) in [&heavy, &light].into_iter().zip(ran) {
            let blamed = blamed(&ours, &culprit.cgroup);
            figure(&format!(
                "{}: {} blamed for {blamed} ns, ran {ran}",
                watcher.mode.name(),
                culprit.cgroup.name
            ));
            // Interrupts are told apart from the culprit that they interrupted.
            assert_includes(blamed + causes.interrupt_ns, ran);
        }
        // What is no pod is the system.
        assert_includes(causes.system_ns + causes.interrupt_ns, ran.iter().sum());
    }
}

#[test]
fn threads_that_change_cpus_while_they_wait_have_causes_for_all_of_it() {
    // A storm of softirqs would fill a timeline within milliseconds, so no other test runs meanwhile.
    let watchers = dividing::alone();
    let all = cpus();
    let threads = 3 * all.len() + 1;
    let spinners = Case::new("crowd", &all, move || process::in_threads(threads, process::spin));
    // A timeline holds the last 128 run intervals. This load makes some 650 a second on each CPU, so a
    // timeline is longer than any wait.
    let body = || process::sleep_and_work(Duration::from_millis(10), Duration::from_millis(1));
    let sleepers = Case::new("guests", &all, move || process::in_threads(threads, body));
    // Other work on this machine then hardly prolongs their waits.
    for case in [&spinners, &sleepers] {
        case.cgroup.set_weight_high();
    }
    let [spun, slept] = [&spinners, &sleepers].map(|case| befores(&watchers, &case.cgroup));
    spinners.load.resume();
    sleepers.load.resume();
    until("all have run and waited", || {
        let (spun, slept) = (spinners.so_far(), sleepers.so_far());
        (spun.on_cpu_ns > 2_000_000_000 && spun.involuntary > 200 && slept.voluntary > 1000).then_some(())
    });
    spinners.load.freeze();
    sleepers.load.freeze();
    let ran = spinners.so_far().on_cpu_ns;
    for (watcher, (spun, slept)) in watchers.iter().zip(spun.iter().zip(&slept)) {
        let own = assert_known(watcher, &spinners, spun).same_pod_ns;
        // There are more than three spinners for each CPU: while one runs, others wait for it.
        assert!(own > ran / 2, "{own} ns of waits for each other, ran {ran} ns");
        assert_known(watcher, &sleepers, slept);
    }
}

/// Checks that the causes of a load's waits are known, except for waits that reach further back than the
/// timeline.
fn assert_known(watcher: &Watcher, case: &Case, before: &SchedSample) -> CausesSample {
    let (ours, causes) = divided(watcher, case, before);
    assert!(causes.unknown_ns < ours.wait.sum_ns / 10, "{causes:?}");
    causes
}

/// A single spinner uses up its quota and waits for the next period.
#[test]
fn a_group_without_quota_left_waits_for_its_quota() {
    throttled(&[]);
}

/// Others have the CPU meanwhile, but are not the cause.
#[test]
fn a_throttled_group_waits_for_its_quota_whoever_has_the_cpu() {
    throttled(&["rival"]);
}

fn throttled(rivals: &[&str]) {
    /// A thread is throttled when it returns to user space; its cgroup is throttled with the first such
    /// thread.
    const TOLERANCE: f64 = 0.05;
    let watchers = dividing::watchers();
    let one = &cpus()[..1];
    let name = if rivals.is_empty() { "held" } else { "held-rival" };
    let held = Case::new(name, one, process::spin);
    held.cgroup.set_quota(Quota { quota_us: 20_000, period_us: 100_000 });
    let rivals: Vec<_> = rivals.iter().map(|name| Case::new(name, one, process::spin)).collect();
    let befores = befores(&watchers, &held.cgroup);
    let before = held.cgroup.throttling();
    for rival in &rivals {
        rival.load.resume();
    }
    held.load.resume();
    until("it was throttled many times", || {
        (held.cgroup.throttling().throttled_periods - before.throttled_periods > 20).then_some(())
    });
    held.load.freeze();
    let throttled_ns = throttling_at_rest(&held.cgroup).throttled_ns - before.throttled_ns;
    for (watcher, before) in watchers.iter().zip(&befores) {
        let (_, causes) = divided(watcher, &held, before);
        figure(&format!(
            "{}: throttled {} ns, cpu.stat {throttled_ns}",
            watcher.mode.name(),
            causes.throttled_ns
        ));
        assert!(close(TOLERANCE, causes.throttled_ns, throttled_ns), "{causes:?} {throttled_ns}");
        let ours = assert_lengths(watcher, &held.cgroup, held.cgroup.throttling());
        assert_eq!(ours.threads, ours.lengths.count(), "it has one thread");
    }
}

/// A change of its affinity moves a thread during the throttle; its wait is no other cgroup's fault.
#[test]
fn a_thread_that_is_moved_while_it_is_throttled_waits_for_its_quota() {
    let watchers = dividing::watchers();
    let Some([here, there]) = two_cpus() else { return };
    let held = Case::new("held-moved", &[here], process::spin);
    // Other work on these CPUs then hardly prolongs its waits.
    held.cgroup.set_weight_high();
    held.cgroup.set_quota(Quota { quota_us: 20_000, period_us: 100_000 });
    let befores = befores(&watchers, &held.cgroup);
    let before = held.cgroup.throttling();
    held.load.resume();
    let mut on = [there, here].into_iter().cycle();
    until("it was throttled many times", || {
        held.load.move_to(on.next().expect("a cycle"));
        (held.cgroup.throttling().throttled_periods - before.throttled_periods > 40).then_some(())
    });
    held.load.freeze();
    for (watcher, before) in watchers.iter().zip(&befores) {
        let (ours, causes) = divided(watcher, &held, before);
        let (name, throttled, all) = (watcher.mode.name(), causes.throttled_ns, ours.wait.sum_ns);
        figure(&format!("{name}: throttled {throttled} ns of {all} ns, {causes:?}"));
        // It has a fifth of each period, and waits for its quota in the rest. While it has quota, it may wait
        // for others.
        assert!(throttled > all / 2, "{name}: {causes:?}");
    }
}

/// On each CPU, the cgroup is throttled separately, with all threads that it has there.
#[test]
fn several_threads_on_all_cpus_are_held_up_together() {
    const A_CPU: usize = 3;
    let watchers = dividing::watchers();
    let all = cpus();
    let threads = A_CPU * all.len();
    let held = Case::new("held-crowd", &all, move || process::in_threads(threads, process::spin));
    let cores = u64::try_from(all.len()).expect("small");
    held.cgroup.set_quota(Quota { quota_us: 30_000 * cores, period_us: 100_000 });
    held.load.resume();
    until("it was throttled many times", || {
        // Each snapshot accounts the running slice in the middle.
        for watcher in watchers.iter() {
            watcher.agent.snapshot();
        }
        (held.cgroup.throttling().throttled_periods > 20).then_some(())
    });
    held.load.freeze();
    let throttling = throttling_at_rest(&held.cgroup);
    for watcher in watchers.iter() {
        let ours = assert_lengths(watcher, &held.cgroup, throttling);
        assert!(ours.threads > ours.lengths.count(), "several at a time: {ours:?}");
    }
}

/// Waits until the last throttling has ended.
fn throttling_at_rest(cgroup: &Cgroup) -> Throttling {
    at_rest("the last throttling has ended", || Some(cgroup.throttling()))
}

/// The wait on the first CPU is blamed on the tasks that ran there, although the victim gets to run on
/// another CPU.
#[test]
fn a_wait_that_ends_on_another_cpu_is_divided_where_it_went_by() {
    const ROUNDS: u32 = 30;
    /// Shorter than a timeline.
    const SHORT: Duration = Duration::from_millis(100);
    let watchers = dividing::watchers();
    let Some([here, there]) = two_cpus() else { return };
    let hog = Case::new("hog", &[here], process::spin);
    hog.cgroup.set_weight_high();
    let victim = Case::new("moved", &[there], process::spin);
    let befores = befores(&watchers, &victim.cgroup);
    hog.load.resume();
    victim.load.resume();
    // While the victim is there, the hog runs at its expense. If this thread is stopped before it moves the
    // victim away, the wait may be longer than a timeline, so that round does not count.
    let (mut ran, mut rounds) = (0, 0);
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        victim.load.move_to(here);
        let before = hog.load.fresh_on_cpu_ns();
        std::thread::sleep(Duration::from_millis(30));
        let had = hog.load.totals().on_cpu_ns - before;
        victim.load.move_to(there);
        if begun.elapsed() < SHORT {
            (ran, rounds) = (ran + had, rounds + 1_u64);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(rounds > 0, "no round was short");
    victim.load.freeze();
    hog.load.freeze();
    for (watcher, before) in watchers.iter().zip(&befores) {
        let (ours, causes) = divided(watcher, &victim, before);
        let blamed = blamed(&ours, &hog.cgroup);
        figure(&format!("{}: the hog is blamed for {blamed} ns, ran {ran}", watcher.mode.name()));
        assert!(ours.wait.sum_ns > rounds * 10_000_000, "it had to wait: {ours:?}");
        assert_includes(blamed + causes.interrupt_ns, ran);
    }
}

/// Checks that the single throttlings of a cgroup add up to the kernel's own total.
fn assert_lengths(watcher: &Watcher, cgroup: &Cgroup, truth: Throttling) -> ThrottleSample {
    /// The v2 file shows whole microseconds.
    const ROUNDED_NS: u64 = 1000;
    let snapshot = watcher.agent.snapshot();
    let ours = workload(&snapshot, &cgroup.name).and_then(|workload| workload.throttle.clone());
    let ours = ours.expect("it was throttled");
    let (name, count) = (watcher.mode.name(), ours.lengths.count());
    figure(&format!(
        "{} by {name}: {count} throttlings, {} ns, {} threads; kernel {truth:?}",
        cgroup.name, ours.lengths.sum_ns, ours.threads
    ));
    assert!(ours.lengths.sum_ns.abs_diff(truth.throttled_ns) <= ROUNDED_NS, "{ours:?}");
    ours
}

/// A pod with a limit and two containers, one with a smaller limit of its own. Each cgroup has its own
/// throttlings, and a thread may wait for either quota.
#[test]
fn nested_quotas_are_told_apart() {
    let watchers = dividing::watchers();
    let one = &cpus()[..1];
    let pod = Cgroup::new("pod");
    pod.enable_controllers_below();
    pod.set_quota(Quota { quota_us: 40_000, period_us: 100_000 });
    let limited = Case::new_in(Cgroup::new("pod/limited"), one, process::spin);
    limited.cgroup.set_quota(Quota { quota_us: 10_000, period_us: 50_000 });
    let free = Case::new_in(Cgroup::new("pod/free"), one, process::spin);
    let befores = befores(&watchers, &limited.cgroup);
    limited.load.resume();
    free.load.resume();
    until("both were throttled many times", || {
        let all = [&pod, &limited.cgroup].map(|cgroup| cgroup.throttling().throttled_periods);
        all.iter().all(|periods| *periods > 20).then_some(())
    });
    limited.load.freeze();
    free.load.freeze();
    let [pod_truth, limited_truth] = [&pod, &limited.cgroup].map(throttling_at_rest);
    for (watcher, before) in watchers.iter().zip(&befores) {
        let (_, causes) = divided(watcher, &limited, before);
        assert_lengths(watcher, &pod, pod_truth);
        assert_lengths(watcher, &limited.cgroup, limited_truth);
        // The load has one thread: while its own cgroup is throttled it waits for that, and at other times
        // for the pod's quota.
        let own = limited_truth.throttled_ns;
        assert!(causes.throttled_ns >= own - own / 20, "{causes:?} {own}");
    }
}

/// The case of a node that is a container itself.
#[test]
fn a_quota_ten_groups_above_its_threads_has_its_throttlings() {
    const DEPTH: usize = 10;
    let watchers = dividing::watchers();
    let outer = Cgroup::new("deep");
    outer.enable_controllers_below();
    outer.set_quota(Quota { quota_us: 2_000, period_us: 50_000 });
    // The innermost first, which is the order of removal.
    let mut between = Vec::new();
    for depth in 1..DEPTH {
        let cgroup = Cgroup::new(&format!("deep{}", "/in".repeat(depth)));
        cgroup.enable_controllers_below();
        between.insert(0, cgroup);
    }
    let limited =
        Case::new_in(Cgroup::new(&format!("deep{}", "/in".repeat(DEPTH))), &cpus()[..1], process::spin);
    limited.load.resume();
    until("it was throttled many times", || (outer.throttling().throttled_periods > 20).then_some(()));
    limited.load.freeze();
    let truth = throttling_at_rest(&outer);
    for watcher in watchers.iter() {
        assert_lengths(watcher, &outer, truth);
    }
}

/// Datagrams to a port without a reader are delivered, and rejected, in a softirq on the sender's CPU, in the
/// context of the sender.
#[test]
fn a_storm_of_softirqs_is_told_from_the_process_under_it() {
    // It fills the timeline of its CPU within milliseconds, so other tests' waits would have unknown causes.
    let watchers = dividing::alone();
    let one = &cpus()[..1];
    let victim = Case::new("bystander", one, process::spin);
    let flood = Case::new("flood", one, flood);
    // Other work on this CPU would make waits longer than a timeline.
    for case in [&victim, &flood] {
        case.cgroup.set_weight_high();
    }
    let befores = befores(&watchers, &victim.cgroup);
    let [ran] = run_beside(&victim, [&flood]);
    for (watcher, before) in watchers.iter().zip(&befores) {
        let (ours, causes) = divided(watcher, &victim, before);
        let blamed = blamed(&ours, &flood.cgroup);
        let (name, interrupt) = (watcher.mode.name(), causes.interrupt_ns);
        figure(&format!(
            "{name}: {interrupt} ns of softirqs and {blamed} ns of the process, which ran {ran} ns"
        ));
        assert!(interrupt > ran / 10, "delivery is a good part of it: {causes:?}");
        // No tenth: interrupts are a sample, and one that the host interrupts counts many times.
        assert!(blamed > 0, "its own system calls are the process's");
        assert_includes(interrupt + blamed, ran);
    }
}

fn flood() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let nobody = UdpSocket::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    loop {
        // The socket is not connected, so the rejections cause no errors.
        drop(socket.send_to(b"x", nobody));
    }
}

#[test]
fn two_thousand_threads_have_causes_for_every_nanosecond() {
    // A timeline holds a limited number of occupant changes of a CPU, and other tests' loads make thousands.
    let watchers = dividing::alone();
    let all = cpus();
    // If all of them woke up at once, the last would wait longer than a timeline on a machine that is short
    // of CPU time.
    let crowd = Case::new("thousands", &all, || process::in_ring(2000, 16));
    // Other work on this machine then hardly prolongs its waits.
    crowd.cgroup.set_weight_high();
    let befores = befores(&watchers, &crowd.cgroup);
    crowd.load.resume();
    // `freeze` wakes all threads once more, so most waits must be those of the ring.
    until("each has waited a hundred times", || (crowd.so_far().arrivals > 200_000).then_some(()));
    crowd.load.freeze();
    for (watcher, before) in watchers.iter().zip(&befores) {
        let (ours, causes) = divided(watcher, &crowd, before);
        // For other work on this machine, which may change occupants many times during a wait.
        assert!(causes.unknown_ns < ours.wait.sum_ns / 20, "{causes:?}");
    }
}
