//! Shards that several CPUs share and update atomically. Machines with more than sixteen CPUs or with
//! hot-added CPUs use them; the tests use them on any machine. They use the domain as a library, because no
//! configuration requests it.

mod support;

use std::time::{Duration, Instant};

use support::cgroup::Cgroup;
use support::process::{self, Load, cpus};
use support::totals::Totals;
use support::{figure, until};
use sysprobe_agent::bpf::Loader;
use sysprobe_agent::config::Config;
use sysprobe_agent::domain::sched::{Sched, accumulate};
use sysprobe_agent::domain::slots::SlotOwner;
use sysprobe_agent::domain::traits::{Domain as _, Start as _};
use sysprobe_agent::host::{Cpus, Facts};
use sysprobe_agent::plan::{Adding, CpuShards, Decision, Plan, Shards};
use sysprobe_agent::probe::{AttachMode, program_set};
use sysprobe_agent::snapshot::SchedSample;

/// The first attach mode that the kernel accepts of those whose numbers match the kernel's to the nanosecond.
fn start(shards: CpuShards) -> (AttachMode, Sched) {
    let config = Config::default();
    let facts = Facts::collect(&config);
    let mut plan = Plan::new(&facts, &config);
    plan.cpu_shards = shards;
    let Some(Decision::On(candidates)) = plan.decision("sched") else {
        panic!("{:?}", plan.decision("sched"))
    };
    let loader = Loader::new(&facts.btf_path);
    let mut refused = Vec::new();
    let exact =
        candidates.iter().filter(|candidate| matches!(candidate.mode, AttachMode::TpBtf | AttachMode::RawTp));
    for candidate in exact {
        let set = program_set("sched", candidate.mode).expect("a candidate is in the table");
        match Sched::start(&loader, set, candidate, &plan) {
            Ok(sched) => return (candidate.mode, sched),
            Err(error) => refused.push(format!("{}: {error}", candidate.mode.name())),
        }
    }
    panic!("the kernel takes none: {refused:?}")
}

/// Adds the cgroups' counts since the last read.
fn read(sched: &mut Sched, totals: &mut [(u64, SchedSample)]) {
    sched.flush().expect("the flush can be run");
    sched.slots().0.list().expect("the slots can be listed");
    let all = |_| true;
    sched.slots().0.read(all, |owner, gathered| {
        let mine = totals.iter_mut().find(|(id, _)| owner == SlotOwner::Cgroup(*id));
        if let Some((_, total)) = mine {
            accumulate(total, gathered);
        }
    });
}

#[test]
fn cpus_that_share_a_shard_lose_nothing() {
    loads_are_counted_exactly("one", CpuShards::one());
}

/// On machines with more than sixteen CPUs, CPUs with a common cache share shards.
#[test]
fn the_shards_of_this_machine_lose_nothing() {
    let config = Config::default();
    loads_are_counted_exactly("planned", Plan::new(&Facts::collect(&config), &config).cpu_shards);
}

/// Simulates that all CPUs except the first come online after the agent has started.
#[test]
fn cpus_that_come_later_lose_nothing_either() {
    let possible = Cpus::collect().possible.max(3);
    let cpus = Cpus { possible, online: vec![0], caches: vec![vec![0]] };
    let shards = CpuShards::new(&cpus, 16);
    assert_eq!(shards.shards, Shards { count: 2, adding: Adding::Mixed });
    loads_are_counted_exactly("later", shards);
}

fn loads_are_counted_exactly(name: &str, shards: CpuShards) {
    /// So many updates on all CPUs at once that some are likely to collide within an addition.
    const BOOKINGS: u64 = 200_000;
    /// After this time, a slow emulated CPU needs only `AT_LEAST` updates.
    const PATIENCE: Duration = Duration::from_secs(20);
    const AT_LEAST: u64 = 20_000;
    let (mode, mut sched) = start(shards);
    let all = cpus();
    let threads = 2 * all.len() + 1;
    let cgroups = ["spinners", "sleepers", "yielders"].map(|load| Cgroup::new(&format!("{name}-{load}")));
    let bodies = [process::spin, process::sleep_often, process::yield_often];
    let stopped = |at: usize| Load::stopped(&cgroups[at], &all, || process::in_threads(threads, bodies[at]));
    let loads = [0, 1, 2].map(stopped);
    // The load's first steps happened before it was in its cgroup.
    let mut totals = cgroups.each_ref().map(|cgroup| (cgroup.id(), SchedSample::default()));
    read(&mut sched, &mut totals);
    let ours_before = totals.each_ref().map(|(_, sample)| Totals::of_sample(sample));
    let kernel_before = loads.each_ref().map(Load::totals);
    let so_far = |at: usize| loads[at].totals().since(kernel_before[at]);
    let started = Instant::now();
    loads.iter().for_each(Load::resume);
    until("all have run and waited", || {
        // Reads in between must not lose anything either.
        read(&mut sched, &mut totals);
        let (spun, slept, yielded) = (so_far(0), so_far(1), so_far(2));
        let enough = spun.on_cpu_ns > 300_000_000 && spun.involuntary > 50 && slept.voluntary > 500;
        let bookings = if started.elapsed() < PATIENCE { BOOKINGS } else { AT_LEAST };
        (enough && yielded.arrivals > bookings).then_some(())
    });
    loads.iter().for_each(Load::freeze);
    read(&mut sched, &mut totals);
    // The agent leaves out sleeps that the kernel counts as waits: a stopped load sleeps, and may be
    // migrated.
    let delayed = sched
        .losses()
        .into_iter()
        .filter(|loss| loss.reason == "delayed_sleeper")
        .map(|loss| loss.count)
        .sum();
    let mut left_out = 0;
    for at in 0..loads.len() {
        let (truth, ours) = (so_far(at), Totals::of_sample(&totals[at].1).since(ours_before[at]));
        figure(&format!("{} by {}: agent {ours:?}, kernel {truth:?}", cgroups[at].name, mode.name()));
        assert!(truth.on_cpu_ns > 0 && truth.arrivals > 0, "the load did something: {truth:?}");
        left_out += truth.assert_told_by(ours, delayed);
    }
    figure(&format!("{left_out} waits left out, {delayed} counted"));
    assert!(left_out <= delayed, "{left_out} are missing, {delayed} are counted");
}
