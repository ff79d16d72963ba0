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

#[test]
fn a_hidden_one_stays_hidden_and_what_it_did_stays_in_other() {
    let mut registry = registry("workloads = 1");
    registry.add(&owner("a"), &gathered(5));
    registry.add(&owner("b"), &gathered(7));
    let now = Instant::now();
    registry.expire(|workload| workload.container != "/a", now, GRACE);
    registry.expire(|workload| workload.container != "/a", now + GRACE, GRACE);
    registry.add(&owner("b"), &gathered(1));
    assert_eq!(hidden(&registry, "/b"), Some(Hidden::OverBudget));
    registry.add(&owner("c"), &gathered(1));
    assert_eq!(hidden(&registry, "/c"), None, "there is room again");
    registry.expire(|_| false, now + GRACE, GRACE);
    registry.expire(|_| false, now + 3 * GRACE, GRACE);
    assert_eq!(registry.other().map(|other| on_cpu(&other)), Some(8), "a counter never goes backwards");
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
