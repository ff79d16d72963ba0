//! A load with a single cgroup, and the agent's account of its waits beside the kernel's.

use sysprobe_agent::snapshot::{CausesSample, SchedSample, Snapshot};

use super::support::agent::Agent;
use super::support::attach_modes::Watcher;
use super::support::cgroup::Cgroup;
use super::support::figure;
use super::support::process::Load;
use super::support::totals::{Totals, lost, workload};

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

pub(crate) fn sched_before(agent: &Agent, cgroup: &Cgroup) -> SchedSample {
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

pub(crate) fn blamed(sample: &SchedSample, culprit: &Cgroup) -> u64 {
    let culprits = sample.blame.culprits.iter();
    culprits.filter(|(who, _)| who.container == culprit.name).map(|(_, ns)| ns).sum()
}
