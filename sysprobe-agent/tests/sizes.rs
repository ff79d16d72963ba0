//! Effects of many CPUs, cgroups and tasks: idle CPUs are not woken, a full map is reported, and repeated
//! scans take no budget. The tests use the domain as a library, because no configuration makes its maps that
//! small.

mod support;

use std::fs;
use std::time::{Duration, Instant};

use support::cgroup::Cgroup;
use support::process::{self, Load, cpus};
use support::{figure, left_out, until};
use sysprobe_agent::bpf::Loader;
use sysprobe_agent::config::Config;
use sysprobe_agent::domain::sched::{Sched, accumulate};
use sysprobe_agent::domain::slots::SlotOwner;
use sysprobe_agent::domain::traits::{Domain as _, Start as _};
use sysprobe_agent::host::Facts;
use sysprobe_agent::plan::{Decision, Plan};
use sysprobe_agent::probe::{program_set, tells_causes};
use sysprobe_agent::snapshot::SchedSample;

/// The first attach mode that the kernel accepts of those that attribute waits.
fn start(change: impl FnOnce(&mut Plan)) -> Sched {
    let config = Config::default();
    let facts = Facts::collect(&config);
    let mut plan = Plan::new(&facts, &config);
    change(&mut plan);
    let Some(Decision::On(candidates)) = plan.decision("sched") else {
        panic!("{:?}", plan.decision("sched"))
    };
    let loader = Loader::new(&facts.btf_path);
    let mut refused = Vec::new();
    for candidate in candidates.iter().filter(|candidate| tells_causes(candidate.mode)) {
        let set = program_set("sched", candidate.mode).expect("a candidate is in the table");
        match Sched::start(&loader, set, candidate, &plan) {
            Ok(sched) => return sched,
            Err(error) => refused.push(error.to_string()),
        }
    }
    panic!("the kernel takes none: {refused:?}")
}

/// Function call interrupts of each CPU, in the order of the online CPUs.
fn calls() -> Vec<u64> {
    let interrupts = fs::read_to_string("/proc/interrupts").expect("readable");
    // x86 names the line `CAL`, arm64 `IPI1: Function call interrupts`.
    let line = interrupts.lines().find(|line| line.trim_end().ends_with("Function call interrupts"));
    let fields = line.expect("a line of function calls").split_whitespace().skip(1);
    fields.map_while(|field| field.parse().ok()).collect()
}

/// The idle time of each CPU, in ticks.
fn idle_ticks() -> Vec<u64> {
    let stat = fs::read_to_string("/proc/stat").expect("readable");
    let cpus = stat.lines().filter(|line| line.starts_with("cpu") && !line.starts_with("cpu "));
    cpus.map(|line| line.split_whitespace().nth(4).and_then(|ticks| ticks.parse().ok()).unwrap_or(0))
        .collect()
}

#[test]
fn a_cpu_that_idles_is_not_interrupted() {
    const FLUSHES: u64 = 20;
    const PATIENCE: Duration = Duration::from_secs(20);
    if cpus().len() < 2 {
        left_out("CPUs that idle", "there is one CPU only");
        return;
    }
    // On the first CPU, a flush needs no interrupt.
    process::move_this_thread_to(0);
    let mut sched = start(|_| {});
    let (started, idled) = (Instant::now(), idle_ticks());
    loop {
        sched.flush().expect("the flush can be run");
        let before = calls();
        for _ in 0..FLUSHES {
            sched.flush().expect("the flush can be run");
        }
        let added: Vec<u64> = calls().iter().zip(&before).map(|(after, before)| after - before).collect();
        if added[1..].contains(&0) {
            figure(&format!("function calls by CPU during {FLUSHES} flushes: {added:?}"));
            return;
        }
        let has_idled = idle_ticks().iter().zip(&idled).skip(1).any(|(now, before)| now - before > 100);
        if !has_idled && started.elapsed() > PATIENCE {
            left_out("CPUs that idle", "the machine is busy: no other CPU idled for a second");
            return;
        }
        assert!(started.elapsed() < 2 * PATIENCE, "each CPU is interrupted by each flush: {added:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn pairs_that_find_no_place_are_counted_and_their_time_is_unknown() {
    let mut sched = start(|plan| plan.sizes.interference = 1);
    let first = [cpus()[0]];
    let cgroups = ["sizes-a", "sizes-b", "sizes-c"].map(Cgroup::new);
    let loads = cgroups
        .each_ref()
        .map(|cgroup| Load::running(cgroup, &first, || process::in_threads(2, process::spin)));
    let lost = |sched: &Sched| {
        let mut losses = sched.losses().into_iter();
        losses.find(|lost| lost.reason == "interference_full").expect("the reason is known").count
    };
    until("pairs find no place", || {
        sched.flush().expect("the flush can be run");
        (lost(&sched) > 0).then_some(())
    });
    loads.iter().for_each(Load::freeze);
    sched.flush().expect("the flush can be run");
    let mut total = SchedSample::default();
    let (slots, _) = sched.slots();
    slots.list().expect("the slots can be listed");
    slots.read(
        |_| true,
        |owner, gathered| {
            if matches!(owner, SlotOwner::Cgroup(_)) {
                accumulate(&mut total, gathered);
            }
        },
    );
    let unknown = total.causes.expect("waits were divided").unknown_ns;
    let unplaced = sched.unplaced_ns();
    figure(&format!(
        "{} pairs found no place, {unplaced} ns of {} ns waited; unknown {unknown} ns",
        lost(&sched),
        total.wait.sum_ns
    ));
    // Other tasks of this machine wait too. Their unplaced time is in both numbers, unless they have no
    // cgroup.
    assert!(unplaced > 0 && unknown > 0, "{unplaced} and {unknown}");
    assert!(unplaced <= total.wait.sum_ns, "{unplaced} of {}", total.wait.sum_ns);
}

#[test]
fn another_pass_over_known_tasks_leaves_the_storage_budget_alone() {
    const GRANT: u64 = 10_000;
    const PATIENCE: Duration = Duration::from_secs(60);
    let mut sched = start(|_| {});
    let seed = sched.seed().expect("this attach mode has task storage");
    let tasks = fs::read_dir("/proc").expect("readable").filter(|entry| {
        entry.as_ref().is_ok_and(|entry| entry.file_name().to_string_lossy().parse::<u32>().is_ok())
    });
    // If each pass took from the budget for all tasks, these would take it twice.
    let passes = 2 * GRANT / tasks.count() as u64 + 1;
    sched.store().expect("it has a budget").grant(GRANT);
    for _ in 0..passes {
        assert!(seed.run(PATIENCE).expect("the scan can be run").is_complete);
    }
    figure(&format!("{passes} passes over the known tasks"));
    // The machine would have to create that many tasks meanwhile.
    assert!(!sched.store().expect("it has a budget").is_exhausted());
}
