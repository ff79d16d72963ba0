//! More cgroups than slots: switches and storage calls without a slot are counted, and the cgroup gets the
//! next slot that becomes free.

mod support;

use std::fs::File;
use std::os::unix::fs::FileExt;
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
use sysprobe_common::slot::room::{CHANGES, EXHAUSTED};

/// The number of slots, including the fixed ones.
const SLOTS: usize = 16;

/// The cgroups of one test would take the slots of the other's agent.
static SLOTS_OF_HOST: Mutex<()> = Mutex::new(());

fn agent(domain: &str) -> Agent {
    let domains = agent::with_only(&[domain]);
    Agent::configured(&format!("slots = {SLOTS}\ngrace_seconds = 1\n{domains}"))
}

/// More cgroups with processes than there are free slots. Each process needs a slot.
fn fill(agent: &Agent, domain: &str, process: fn()) -> Vec<(Load, Cgroup)> {
    let fill = |number| {
        let cgroup = Cgroup::new(&format!("{}-{number}", agent.pid()));
        (Load::running(&cgroup, &cpus(), process), cgroup)
    };
    let filled = (0..SLOTS).map(fill).collect();
    until("there are no slots left", || (missed(&agent.snapshot(), domain) > 0).then_some(()));
    filled
}

fn missed(snapshot: &Snapshot, domain: &str) -> u64 {
    lost(snapshot, domain, "no_free_slot")
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
    let agent = agent("sched");
    let room = room(&agent);
    let word = |number| room.get(&number, 0).expect("in the array");
    let _filled = fill(&agent, "sched", process::sleep_often);
    until("it is noted", || (word(EXHAUSTED) == word(CHANGES) + 1).then_some(()));
}

/// `cargo xtask cost` measures the cost of a switch without a slot.
#[test]
fn switches_without_a_slot_are_counted_until_one_becomes_free() {
    let _turn = SLOTS_OF_HOST.lock().unwrap_or_else(PoisonError::into_inner);
    let agent = agent("sched");
    let filled = fill(&agent, "sched", process::sleep_often);
    let late = Cgroup::new("late");
    let load = Load::running(&late, &cpus()[..1], || process::in_threads(2, process::yield_often));
    let switches = || {
        let totals = load.totals();
        totals.voluntary + totals.involuntary
    };
    let (before, start) = (agent.snapshot(), switches());
    let own =
        until("it has been switched to often", || Some(switches() - start).filter(|own| *own > 100_000));
    let counted = missed(&agent.snapshot(), "sched") - missed(&before, "sched");
    figure(&format!("{counted} switches were counted, {own} of them of the load"));
    // The kernel may skip a run of the program, and counts that elsewhere.
    assert!(counted >= own - own / 100, "{counted} of {own}");
    let has_slot = || workload(&agent.snapshot(), &late.name).is_some_and(|known| known.sched.is_some());
    assert!(!has_slot(), "there is none");
    drop(filled);
    until("it has a slot", || has_slot().then_some(()));
}

/// Reads one byte of this program's file.
fn read() {
    let program = File::open("/proc/self/exe").expect("a file");
    program.read_exact_at(&mut [0], 0).expect("a byte");
}

#[test]
fn storage_calls_without_a_slot_are_counted_until_one_becomes_free() {
    const READS: u64 = 10_000;
    // Opening the file is a call, too.
    const CALLS: u64 = 2 * READS;
    let _turn = SLOTS_OF_HOST.lock().unwrap_or_else(PoisonError::into_inner);
    let agent = agent("vfs");
    let read_often = || {
        loop {
            read();
            thread::sleep(Duration::from_millis(10));
        }
    };
    let filled = fill(&agent, "vfs", read_often);
    let late = Cgroup::new("late-reader");
    let before = agent.snapshot();
    Load::running(&late, &cpus(), || (0..READS).for_each(|_| read())).finish();
    let after = agent.snapshot();
    let counted = missed(&after, "vfs") - missed(&before, "vfs");
    figure(&format!("{counted} calls were counted, {CALLS} of them of the load"));
    // The kernel may skip a run of the program, and counts that elsewhere.
    assert!(counted >= CALLS - CALLS / 100, "{counted} of {CALLS}");
    let has_slot =
        |snapshot: &Snapshot| workload(snapshot, &late.name).is_some_and(|known| known.vfs.is_some());
    assert!(!has_slot(&after), "there is none");
    drop(filled);
    until("it has a slot", || {
        Load::running(&late, &cpus(), read).finish();
        has_slot(&agent.snapshot()).then_some(())
    });
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
