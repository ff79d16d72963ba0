//! What is added up to a pod.

use super::*;
use crate::{
    snapshot::HistogramSample,
    top::fixture::{cpu, node, sample, sched, snapshot, workload},
};

const MS: u64 = 1_000_000;

fn done(container: &str, kind: WorkloadKind, usage_ms: u64, quota: Option<f64>) -> Done {
    let name = workload("shop", "web", container);
    let mut later = sample(name, Some(sched(MS, &[1_000], 2, 1)), Some(cpu(usage_ms * MS, 10, 5, 7)));
    later.kind = kind;
    if let Some(cpu) = &mut later.cpu {
        cpu.quota_cores = quota;
    }
    Done::of(None, &later)
}

fn sum(parts: &[Done]) -> Done {
    let mut sum = parts[0].clone();
    parts[1..].iter().for_each(|part| sum.add(part));
    sum
}

#[test]
fn a_pod_is_the_sum_of_its_containers() {
    let parts = ["a", "b", "c"].map(|name| done(name, WorkloadKind::Container, 5, Some(0.5)));
    let pod = sum(&parts);
    let sched = pod.sched.expect("on");
    assert_eq!((sched.on_cpu_ns, sched.voluntary_switches), (3 * MS, 6));
    assert_eq!(sched.wait, HistogramSample::of(&[1_000; 3]));
    assert_eq!((pod.usage_ns, pod.quota_cores), (Some(15 * MS), Some(1.5)));
    assert_eq!(pod.throttling.map(|t| (t.periods, t.throttled_periods)), Some((30, 15)));
    let [a, b, _] = parts;
    let free = done("c", WorkloadKind::Container, 5, None);
    assert_eq!(sum(&[a, free, b]).quota_cores, None, "one without a quota");
}

#[test]
fn the_pods_own_cgroup_has_used_what_its_containers_have() {
    let of = |name, kind, quota| done(name, kind, 5, quota);
    let pod = done("", WorkloadKind::Pod, 11, Some(2.0));
    let [a, b] = ["a", "b"].map(|name| of(name, WorkloadKind::Container, None));
    for parts in [[&pod, &a, &b].map(Done::clone), [&a, &b, &pod].map(Done::clone)] {
        let pod = sum(&parts);
        assert_eq!((pod.usage_ns, pod.quota_cores), (Some(11 * MS), Some(2.0)));
    }
}

#[test]
fn what_a_container_did_before_it_was_started_again_is_not_lost() {
    let before =
        snapshot(1, vec![sample(workload("shop", "web", "a"), Some(sched(9 * MS, &[1_000; 4], 8, 0)), None)]);
    let after =
        snapshot(3, vec![sample(workload("shop", "web", "a"), Some(sched(MS, &[1_000], 2, 0)), None)]);
    let done = each(&before, &after).next().expect("one");
    assert_eq!(done.sched.expect("on").on_cpu_ns, MS, "totals that went backwards are new");
}

#[test]
fn what_is_in_no_pod_is_alone() {
    let (earlier, later) = node();
    let pods: Vec<_> = each(&earlier, &later).filter_map(|done| done.pod()).collect();
    assert_eq!(pods.len(), 4, "containers of three pods");
    assert!(pods.iter().all(|pod| pod.container.is_empty()));
}
