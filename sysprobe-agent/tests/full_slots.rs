//! More cgroups than slots: switches without a slot are counted, and the cgroup gets the next slot that
//! becomes free.

mod support;

use support::agent::{self, Agent};
use support::cgroup::Cgroup;
use support::process::{self, Load, cpus};
use support::totals::{lost, workload};
use support::{figure, until};
use sysprobe_agent::snapshot::{ProgramSample, Snapshot};

/// The number of slots, including the fixed ones.
const SLOTS: usize = 16;

/// The statistics of the program at the context switch.
fn switches(snapshot: &Snapshot) -> &ProgramSample {
    let mut programs = snapshot.agent.programs.iter();
    programs.find(|program| program.program.starts_with("sched_switch")).expect("the program runs")
}

/// `cargo xtask cost` measures the cost of a switch without a slot.
#[test]
fn switches_without_a_slot_are_counted_until_one_becomes_free() {
    let domains = agent::with_only(&["sched"]);
    let agent = Agent::configured(&format!(
        "slots = {SLOTS}\ngrace_seconds = 1\nprogram_statistics = true\n{domains}"
    ));
    let first: Vec<_> = (0..SLOTS).map(|number| Cgroup::new(&format!("first-{number}"))).collect();
    let loads: Vec<_> =
        first.iter().map(|cgroup| Load::running(cgroup, &cpus(), process::sleep_often)).collect();
    let missed = |snapshot: &Snapshot| lost(snapshot, "sched", "no_free_slot");
    until("there are no slots left", || (missed(&agent.snapshot()) > 0).then_some(()));
    let late = Cgroup::new("late");
    let _late = Load::running(&late, &cpus()[..1], || process::in_threads(2, process::yield_often));
    let before = agent.snapshot();
    let (after, runs) = until("it has been switched to often", || {
        let now = agent.snapshot();
        let runs = switches(&now).runs - switches(&before).runs;
        (runs > 100_000).then_some((now, runs))
    });
    let counted = missed(&after) - missed(&before);
    figure(&format!("{counted} of {runs} switches were counted"));
    assert!(counted > runs / 2, "{counted} of {runs}");
    let has_slot = || workload(&agent.snapshot(), &late.name).is_some_and(|known| known.sched.is_some());
    assert!(!has_slot(), "there is none");
    drop(loads);
    drop(first);
    until("it has a slot", || has_slot().then_some(()));
}
