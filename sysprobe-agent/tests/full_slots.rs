//! More cgroups than slots: switches without a slot are counted, and the cgroup gets the next slot that
//! becomes free.

mod support;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use aya::maps::{Array, Map, MapData};
use support::agent::{self, Agent};
use support::bpf::Objects;
use support::cgroup::Cgroup;
use support::command;
use support::process::{self, Load, cpus};
use support::totals::{lost, workload};
use support::{document, figure, until};
use sysprobe_agent::snapshot::Snapshot;
use sysprobe_common::slot::room::{EXHAUSTED, FREED, RETURNED};

/// The number of slots, including the fixed ones.
const SLOTS: usize = 16;

/// The cgroups of one test would take the slots of the other's agent.
static SLOTS_OF_HOST: Mutex<()> = Mutex::new(());

fn agent() -> Agent {
    let domains = agent::with_only(&["sched"]);
    Agent::configured(&format!("slots = {SLOTS}\ngrace_seconds = 1\n{domains}"))
}

/// More cgroups with processes than there are free slots.
fn fill(agent: &Agent) -> Vec<(Load, Cgroup)> {
    let fill = |number| {
        let cgroup = Cgroup::new(&format!("{}-{number}", agent.pid()));
        (Load::running(&cgroup, &cpus(), process::sleep_often), cgroup)
    };
    let filled = (0..SLOTS).map(fill).collect();
    until("there are no slots left", || (missed(&agent.snapshot()) > 0).then_some(()));
    filled
}

fn missed(snapshot: &Snapshot) -> u64 {
    lost(snapshot, "sched", "no_free_slot")
}

/// The words beside an agent's stack of free slots.
fn room(agent: &Agent) -> Array<MapData, u64> {
    let data = Objects::of_process(agent.pid()).map("SCHED_ROOM");
    Array::try_from(Map::Array(data)).expect("an array of 64-bit words")
}

/// The stack has one lock for all CPUs, which a switch must not take for nothing.
#[test]
fn programs_note_that_the_stack_is_empty() {
    let _turn = SLOTS_OF_HOST.lock().unwrap_or_else(PoisonError::into_inner);
    let agent = agent();
    let room = room(&agent);
    let word = |number| room.get(&number, 0).expect("in the array");
    let _filled = fill(&agent);
    until("it is noted", || (word(EXHAUSTED) == word(FREED) + word(RETURNED) + 1).then_some(()));
}

/// `cargo xtask cost` measures the cost of a switch without a slot.
#[test]
fn switches_without_a_slot_are_counted_until_one_becomes_free() {
    let _turn = SLOTS_OF_HOST.lock().unwrap_or_else(PoisonError::into_inner);
    let agent = agent();
    let filled = fill(&agent);
    let late = Cgroup::new("late");
    let load = Load::running(&late, &cpus()[..1], || process::in_threads(2, process::yield_often));
    let switches = || {
        let totals = load.totals();
        totals.voluntary + totals.involuntary
    };
    let (before, start) = (agent.snapshot(), switches());
    let own =
        until("it has been switched to often", || Some(switches() - start).filter(|own| *own > 100_000));
    let counted = missed(&agent.snapshot()) - missed(&before);
    figure(&format!("{counted} switches were counted, {own} of them of the load"));
    // The kernel may skip a run of the program, and counts that elsewhere.
    assert!(counted >= own - own / 100, "{counted} of {own}");
    let has_slot = || workload(&agent.snapshot(), &late.name).is_some_and(|known| known.sched.is_some());
    assert!(!has_slot(), "there is none");
    drop(filled);
    until("it has a slot", || has_slot().then_some(()));
}

/// It makes its slots as an agent without a configuration does, and nothing asks its engine before the window
/// ends.
#[test]
fn a_command_without_an_agent_frees_slots_during_its_window() {
    const LIFE: Duration = Duration::from_micros(500);
    let _turn = SLOTS_OF_HOST.lock().unwrap_or_else(PoisonError::into_inner);
    let directory = tempfile::tempdir().expect("a directory");
    let mut top = command::sysprobe();
    top.args(["top", "--once", "--interval", "12s", "--all", "-o", "json", "--socket"]);
    top.arg(directory.path().join("none"));
    let (lives, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let live = || {
        while !is_over.load(Ordering::Relaxed) {
            let cgroup = Cgroup::new(&format!("short-{}", lives.fetch_add(1, Ordering::Relaxed)));
            Load::running(&cgroup, &cpus(), || process::use_cpu(LIFE)).finish();
        }
    };
    let outcome = thread::scope(|scope| {
        // Most of the time, each waits for the end of its process.
        for _ in 0..8 {
            scope.spawn(live);
        }
        let outcome = command::run(&mut top);
        is_over.store(true, Ordering::Relaxed);
        outcome
    });
    let (document, lives) = (document::of("top", &outcome), lives.into_inner());
    let rows = document["workloads"].as_array().expect("rows");
    let unknown = rows.iter().find(|row| row["container"] == "unknown");
    let cores = unknown.and_then(|row| row["cpu_cores"].as_f64()).unwrap_or(0.0);
    let seconds = cores * document["window_seconds"].as_f64().expect("a number");
    figure(&format!("{lives} cgroups; {seconds} s are charged to `unknown`"));
    assert!(seconds < LIFE.as_secs_f64(), "{seconds} s of {lives} cgroups are charged to `unknown`");
}
