//! Workloads with series of their own, and the sum of the others.

use std::sync::Arc;

use super::*;
use crate::config::metrics::MetricsConfig;
use crate::pods::pod::Pod;

fn registry(config: &str) -> Registry {
    let config: MetricsConfig = toml::from_str(config).expect("a configuration");
    Registry::new(Admission::new(&config))
}

fn container(namespace: &str, pod: &str) -> Owner {
    Owner {
        workload: Workload { namespace: namespace.into(), pod: pod.into(), container: "app".into() },
        kind: WorkloadKind::Container,
        pod: Some(Arc::new(Pod { namespace: namespace.into(), name: pod.into(), ..Pod::default() })),
        since: None,
    }
}

fn on_cpu(sample: &WorkloadSample) -> u64 {
    sample.sched.as_ref().map_or(0, |sched| sched.on_cpu_ns)
}

fn hidden(registry: &Registry, name: &str) -> Option<Hidden> {
    let samples = registry.samples();
    let named = |sample: &&WorkloadSample| sample.workload.container == name || sample.workload.pod == name;
    samples.iter().find(named).expect("it is known").hidden
}

#[test]
fn those_that_come_when_there_are_enough_are_a_part_of_other() {
    let mut registry = registry("workloads = 2");
    for name in ["a", "b", "c", "d"] {
        registry.add(&owner(name), &gathered(5));
        registry.add(&owner(name), &gathered(2));
    }
    registry.add(&Owner::kernel(), &gathered(1));
    assert_eq!((hidden(&registry, "/a"), hidden(&registry, "/b")), (None, None));
    assert_eq!(hidden(&registry, "/c"), Some(Hidden::OverBudget));
    assert_eq!(hidden(&registry, "kernel"), None, "it is always told");
    let other = registry.other().expect("two of them");
    assert_eq!((on_cpu(&other), other.kind), (14, WorkloadKind::Other));
    assert_eq!(registry.hidden().collect::<Vec<_>>(), [(Hidden::Unwanted, 0), (Hidden::OverBudget, 2)]);
}

/// Lets the grace period of all workloads pass that are not named so.
fn end_all_but(registry: &mut Registry, names: &[&str], now: Instant) {
    for now in [now, now + GRACE] {
        registry.expire(|workload| names.contains(&&*workload.container), now, GRACE);
    }
}

/// Begins a collection; the last one began at that time.
fn collect(registry: &mut Registry, now: Instant) {
    registry.note_collection(now);
    registry.admit_waiting();
}

#[test]
fn the_one_that_has_waited_longest_gets_series_from_0_when_another_is_gone() {
    let mut registry = registry("workloads = 1");
    let now = Instant::now();
    let ago = |seconds| now.checked_sub(Duration::from_secs(seconds)).expect("this machine has run longer");
    // The older one is not the first by name.
    for (name, ns, seconds) in [("a", 5, 30), ("z", 7, 20), ("b", 2, 10)] {
        collect(&mut registry, ago(seconds));
        registry.add(&owner(name), &gathered(ns));
    }
    end_all_but(&mut registry, &["/z", "/b"], now);
    registry.add(&owner("new"), &gathered(1));
    assert_eq!(hidden(&registry, "/new"), Some(Hidden::OverBudget), "others wait");
    let waited = registry.samples().into_iter().find(|sample| sample.workload.container == "/z");
    collect(&mut registry, now);
    registry.add(&owner("z"), &gathered(1));
    let samples = registry.samples();
    let found = samples.iter().find(|sample| sample.workload.container == "/z").expect("it is known");
    assert_eq!((found.hidden, on_cpu(found)), (None, 1), "the 7 before that are in `other`");
    assert!(!found.continues(&waited.expect("it was known")), "for commands, its totals begin anew");
    assert!(found.created_ms + 5_000 > host::unix_ms(now), "and for Prometheus");
    assert_eq!(hidden(&registry, "/b"), Some(Hidden::OverBudget), "there is room for one");
    registry.add(&owner("d"), &gathered(1));
    assert_eq!(hidden(&registry, "/d"), Some(Hidden::OverBudget));
    assert_eq!(registry.other().map(|other| on_cpu(&other)), Some(11), "a counter never goes backwards");
}

#[test]
fn one_that_is_gone_or_unwanted_gets_no_room() {
    let mut registry = registry("workloads = 1\nnamespaces.deny = ['kube-.*']");
    registry.add(&container("kube-system", "unwanted"), &gathered(1));
    for name in ["a", "gone"] {
        registry.add(&owner(name), &gathered(1));
    }
    let now = Instant::now();
    registry.expire(|workload| workload.container != "/a", now, GRACE);
    registry.expire(|workload| workload.pod == "unwanted", now + GRACE, GRACE);
    registry.admit_waiting();
    assert_eq!(hidden(&registry, "unwanted"), Some(Hidden::Unwanted));
    assert_eq!(hidden(&registry, "/gone"), Some(Hidden::OverBudget));
}

#[test]
fn what_is_not_wanted_by_its_names_is_a_part_of_other() {
    let mut registry = registry("namespaces.deny = ['kube-.*']\npods = { allow = ['web-.*'] }");
    for (namespace, pod) in [("shop", "web-0"), ("kube-system", "web-1"), ("shop", "db-0")] {
        registry.add(&container(namespace, pod), &gathered(3));
    }
    registry.add(&owner("ssh.service"), &gathered(1));
    let unwanted = Some(Hidden::Unwanted);
    let found = ["web-0", "web-1", "db-0", "ssh.service"].map(|name| hidden(&registry, name));
    assert_eq!(found, [None, unwanted, unwanted, None], "what is no pod has neither name");
    assert_eq!(registry.pods().len(), 1, "and no histograms");
    assert_eq!(registry.other().map(|other| on_cpu(&other)), Some(6));
}

#[test]
fn files_and_interference_of_hidden_ones_are_in_both() {
    let mut registry = registry("workloads = 1");
    registry.add(&owner("a"), &gathered(5));
    let mut seen = CpuSample::default().first_seen(Origin::Born);
    registry.add_reading(&owner("b"), &CpuSample { quota_cores: Some(2.0), ..cpu(100, 7) }, &mut seen);
    registry.add_reading(&owner("b"), &CpuSample { quota_cores: Some(2.0), ..cpu(130, 9) }, &mut seen);
    registry.add_interference(&owner("b"), &owner("a"), 11);
    let other = registry.other().expect("one");
    let cpu = other.cpu.expect("has cpu");
    assert_eq!((cpu.usage_ns, cpu.quota_cores), (Some(130), None), "limits do not add up");
    let causes = other.sched.and_then(|sched| sched.causes).expect("it waited");
    assert_eq!(causes.system_ns, 11);
}
