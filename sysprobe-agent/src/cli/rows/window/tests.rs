//! Sums over the parts of a pod.

use super::*;
use crate::cli::fixture::{cpu, node, sample, sched, snapshot, workload};
use crate::cli::rows::pods;
use crate::snapshot::HistogramSample;

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

/// The sum of the parts, which is the same in any order.
fn sum(parts: &[&Done]) -> Done {
    let pod = |parts: &[&Done]| {
        let (mut whole, _) = pods::whole(parts.iter().copied().cloned().collect());
        assert_eq!(whole.len(), 1);
        whole.remove(0)
    };
    let mut turned = parts.to_vec();
    let sum = pod(parts);
    for _ in parts {
        turned.rotate_left(1);
        let same = pod(&turned);
        assert_eq!((same.usage_ns, same.quota_cores), (sum.usage_ns, sum.quota_cores));
        assert_eq!((same.throttled_ratio, same.throttled_ns), (sum.throttled_ratio, sum.throttled_ns));
    }
    sum
}

#[test]
fn a_pod_is_the_sum_of_its_containers() {
    let [a, b, c] = ["a", "b", "c"].map(|name| done(name, WorkloadKind::Container, 5, Some(0.5)));
    let pod = sum(&[&a, &b, &c]);
    let sched = pod.sched.expect("on");
    assert_eq!((sched.on_cpu_ns, sched.voluntary_switches), (3 * MS, 6));
    assert_eq!(sched.wait, HistogramSample::of(&[1_000; 3]));
    assert_eq!((pod.kind, pod.usage_ns, pod.quota_cores), (WorkloadKind::Pod, Some(15 * MS), Some(1.5)));
    assert_eq!((pod.throttled_ratio, pod.throttled_ns), (Some(0.5), Some(21)));
    let free = done("c", WorkloadKind::Container, 5, None);
    assert_eq!(sum(&[&a, &free, &b]).quota_cores, None, "one without a quota");
}

/// It had no series of its own until then.
#[test]
fn a_workload_whose_totals_began_anew_has_done_all_of_them_in_the_window() {
    let at = |created_ms, ns: u64| {
        let name = workload("shop", "web", "a");
        let totals = sample(name, Some(sched(ns, &[1_000], 2, 1)), Some(cpu(ns, 10, 5, 7)));
        let mut snapshot = snapshot(0, vec![totals]);
        snapshot.workloads[0].created_ms = created_ms;
        snapshot
    };
    let done = |earlier: &Snapshot, later: &Snapshot| -> Vec<_> {
        let all = each(earlier, later, |_| true);
        all.map(|done| (done.sched.map(|sched| sched.on_cpu_ns), done.usage_ns)).collect()
    };
    assert_eq!(done(&at(1, 100), &at(1, 500)), [(Some(400), Some(400))]);
    assert_eq!(done(&at(1, 100), &at(2, 500)), [(Some(500), Some(500))]);
}

#[test]
fn the_pods_own_cgroup_has_used_what_its_containers_have() {
    let [a, b] = ["a", "b"].map(|name| done(name, WorkloadKind::Container, 5, None));
    let limited = sum(&[&a, &b, &done("", WorkloadKind::Pod, 11, Some(2.0))]);
    assert_eq!((limited.usage_ns, limited.quota_cores), (Some(11 * MS), Some(2.0)));
    let silent = Done { usage_ns: None, ..done("", WorkloadKind::Pod, 0, None) };
    let one_limited = done("a", WorkloadKind::Container, 5, Some(1.0));
    let of_memory = sum(&[&one_limited, &b, &silent]);
    assert_eq!((of_memory.usage_ns, of_memory.quota_cores), (Some(10 * MS), None));
}

#[test]
fn a_pod_is_as_throttled_as_its_most_throttled_container() {
    let throttled = done("a", WorkloadKind::Container, 5, Some(0.5));
    let mut idle = done("b", WorkloadKind::Container, 5, Some(0.5));
    (idle.throttled_ratio, idle.throttled_ns) = (Some(0.0), Some(0));
    let pod = sum(&[&throttled, &idle]);
    assert_eq!((pod.throttled_ratio, pod.throttled_ns), (Some(0.5), Some(7)));
}

/// As the recorded rules have it: throttled for as long as the containers together, or the pod.
#[test]
fn a_pod_is_not_throttled_twice_by_its_quota_and_its_containers() {
    let [a, b] = ["a", "b"].map(|name| done(name, WorkloadKind::Container, 5, Some(0.5)));
    for (own, expected) in [(None, 14), (Some(9), 14), (Some(14), 14), (Some(20), 20)] {
        let pod = Done { throttled_ns: own, ..done("", WorkloadKind::Pod, 10, Some(1.0)) };
        assert_eq!(sum(&[&a, &b, &pod]).throttled_ns, Some(expected), "{own:?}");
    }
}

#[test]
fn what_a_container_did_before_it_was_started_again_is_not_lost() {
    let before =
        snapshot(1, vec![sample(workload("shop", "web", "a"), Some(sched(9 * MS, &[1_000; 4], 8, 0)), None)]);
    let after =
        snapshot(3, vec![sample(workload("shop", "web", "a"), Some(sched(MS, &[1_000], 2, 0)), None)]);
    let done = each(&before, &after, |_| true).next().expect("one");
    assert_eq!(done.sched.expect("on").on_cpu_ns, MS, "totals that went backwards are new");
}

#[test]
fn what_is_in_no_pod_is_alone() {
    let (earlier, later) = node();
    let pods: Vec<_> = each(&earlier, &later, |_| true).filter_map(|done| done.pod()).collect();
    assert_eq!(pods.len(), 4, "containers of three pods");
    assert!(pods.iter().all(|pod| pod.container.is_empty()));
}
