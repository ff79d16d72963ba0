//! A load with a single cgroup, and the agent's account of its waits beside the kernel's.

use std::array;

use sysprobe_agent::snapshot::{CausesSample, SchedSample, Snapshot};

use super::support::agent::Agent;
use super::support::attach_modes::Watcher;
use super::support::cgroup::Cgroup;
use super::support::process::Load;
use super::support::totals::{Totals, lost, workload};
use super::support::{figure, until};

/// A load with a single cgroup, and the kernel's counters from when it was still stopped.
pub(crate) struct Case {
    pub(crate) cgroup: Cgroup,
    pub(crate) load: Load,
    before: Totals,
}

impl Case {
    pub(crate) fn new(name: &str, cpus: &[usize], body: impl FnOnce()) -> Self {
        Self::new_in(Cgroup::new(name), cpus, body)
    }

    pub(crate) fn new_in(cgroup: Cgroup, cpus: &[usize], body: impl FnOnce()) -> Self {
        let load = Load::stopped(&cgroup, cpus, body);
        let before = load.totals();
        Self { cgroup, load, before }
    }

    pub(crate) fn so_far(&self) -> Totals {
        self.load.totals().since(self.before)
    }
}

fn sched<'a>(snapshot: &'a Snapshot, cgroup: &Cgroup) -> &'a SchedSample {
    let workload = workload(snapshot, &cgroup.name).expect("the workload is known");
    workload.sched.as_ref().expect("it was scheduled")
}

/// What each watcher knows of a cgroup before a load runs.
pub(crate) fn befores(watchers: &[Watcher], cgroup: &Cgroup) -> Vec<SchedSample> {
    watchers.iter().map(|watcher| sched_before(&watcher.agent, cgroup)).collect()
}

fn sched_before(agent: &Agent, cgroup: &Cgroup) -> SchedSample {
    let snapshot = agent.snapshot();
    let known = workload(&snapshot, &cgroup.name).and_then(|workload| workload.sched.clone());
    known.unwrap_or_default()
}

/// The waits of a frozen load since `before`. Their sum equals the kernel's total to the nanosecond, except
/// for sleeps that the kernel counts as waits (Linux 6.12): the agent leaves those out and counts them.
pub(crate) fn divided(watcher: &Watcher, case: &Case, before: &SchedSample) -> (SchedSample, CausesSample) {
    let snapshot = watcher.agent.snapshot();
    let ours = sched(&snapshot, &case.cgroup).since(before).expect("totals grow");
    let causes = ours.causes.expect("it waited");
    let (name, truth) = (watcher.mode.name(), case.so_far());
    figure(&format!("{} by {name}: waited {} ns: {causes:?}", case.cgroup.name, truth.wait_ns));
    assert_eq!(causes.total_ns(), ours.wait.sum_ns, "{name}: the causes sum to the wait");
    truth.assert_told_by(Totals::of_sample(&ours), lost(&snapshot, "sched", "delayed_sleeper"));
    (ours, causes)
}

/// Lets all of these loads run, which want the same CPU, and stops them once each has had it for a while.
/// Returns how long each culprit ran while the victim certainly wanted the CPU, too.
pub(crate) fn run_beside<const N: usize>(victim: &Case, culprits: [&Case; N]) -> [u64; N] {
    const ENOUGH_NS: u64 = 800_000_000;
    let all = || culprits.iter().copied().chain([victim]);
    for case in all() {
        case.load.resume();
    }
    // The switch to the victim also brings the culprits' numbers up to date.
    until("the victim runs", || (victim.so_far().on_cpu_ns > 0).then_some(()));
    let before = culprits.map(|culprit| culprit.so_far().on_cpu_ns);
    until("all have run", || all().all(|case| case.so_far().on_cpu_ns > ENOUGH_NS).then_some(()));
    let ran = array::from_fn(|at| culprits[at].so_far().on_cpu_ns - before[at]);
    victim.load.freeze();
    for culprit in culprits {
        culprit.load.freeze();
    }
    ran
}

/// Asserts that the causes include the time that a culprit ran, at least: time that the host of this machine
/// takes away is a part of the wait, but not of the culprit's time.
pub(crate) fn assert_includes(blamed: u64, ran: u64) {
    /// For switches that the kernel hides from programs, and for waits that reach further back than the
    /// timeline.
    const MOST_OF: f64 = 0.95;
    assert!(blamed as f64 >= ran as f64 * MOST_OF, "{blamed} ns of {ran} ns");
}

/// The time for which a culprit is to blame. The agent names ten of them, and the culprit may be one of the
/// others while more tests run.
pub(crate) fn blamed(sample: &SchedSample, culprit: &Cgroup) -> u64 {
    let culprits = sample.blame.culprits.iter();
    let named: u64 = culprits.filter(|(who, _)| who.container == culprit.name).map(|(_, ns)| ns).sum();
    named + sample.blame.other_ns
}
