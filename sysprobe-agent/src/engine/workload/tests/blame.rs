//! Interference, by cause and by name.

use super::*;
use crate::snapshot::{CausesSample, Culprit};

fn sched_of(registry: &Registry, owner: &Owner) -> SchedSample {
    let mut samples = registry.samples();
    samples.retain(|sample| sample.workload == owner.workload);
    samples.pop().and_then(|sample| sample.sched).expect("it waited")
}

fn by_pod(pod: &str) -> Culprit {
    in_pod_named(pod, "app").workload.as_culprit()
}

#[test]
fn whoever_ran_meanwhile_is_a_cause_and_what_is_no_sibling_has_a_name() {
    let mut registry = Registry::default();
    let victim = in_pod("app");
    let culprits = [
        (in_pod("sidecar"), 1),
        (victim.clone(), 2),
        (in_pod_named("batch-1", "app"), 4),
        (owner("system.slice/ssh.service"), 8),
        (Owner::kernel(), 16),
        (Owner::unknown(), 32),
    ];
    for (culprit, ns) in &culprits {
        registry.add_interference(&victim, culprit, *ns);
    }
    registry.choose_culprits(Instant::now());
    let sched = sched_of(&registry, &victim);
    let causes = CausesSample {
        same_pod_ns: 3,
        other_pod_ns: 4,
        system_ns: 8,
        kernel_ns: 16,
        unknown_ns: 32,
        ..CausesSample::default()
    };
    assert_eq!(sched.causes, Some(causes));
    let service = owner("system.slice/ssh.service").workload.as_culprit();
    assert_eq!(sched.blame.culprits, [(service, 8), (by_pod("batch-1"), 4)]);
}

#[test]
fn two_system_services_are_no_siblings() {
    let mut registry = Registry::default();
    let (one, other) = (owner("one"), owner("other"));
    registry.add_interference(&one, &other, 5);
    registry.add_interference(&one, &one, 3);
    let causes = sched_of(&registry, &one).causes.expect("it has causes");
    assert_eq!((causes.system_ns, causes.same_pod_ns), (5, 3));
}

#[test]
fn a_culprit_is_named_as_long_as_it_has_series_of_its_own() {
    let start = Instant::now();
    let mut registry = Registry::default();
    let (victim, culprit) = (in_pod("app"), in_pod_named("batch-1", "app"));
    registry.add(&victim, &gathered(5));
    registry.add(&culprit, &gathered(5));
    registry.add_interference(&victim, &culprit, 7);
    let lives = |workload: &Workload| *workload == victim.workload;
    registry.expire(lives, start, GRACE);
    assert_eq!(sched_of(&registry, &victim).blame.culprits, [(by_pod("batch-1"), 7)]);
    registry.expire(lives, start + GRACE, GRACE);
    let sched = sched_of(&registry, &victim);
    assert_eq!(sched.blame.culprits, [], "in the very snapshot that it is gone from");
    assert_eq!(sched.causes.map(|causes| causes.other_pod_ns), Some(7));
}

#[test]
fn causes_alone_are_not_thrown_away() {
    let mut registry = Registry::default();
    let mut causes = SchedStats::ZERO.causes;
    causes[sysprobe_common::sched::Cause::Unknown as usize] = 9;
    registry.add(&owner("a"), &SchedStats { causes, ..SchedStats::ZERO });
    let causes = sched_of(&registry, &owner("a")).causes;
    assert_eq!(causes.map(|causes| causes.unknown_ns), Some(9));
}
