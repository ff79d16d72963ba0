//! Two snapshots of a node on which a pod is made to wait by everybody.

use super::target::Target;
use crate::{
    show::fixture::{sample, sched, snapshot, workload},
    snapshot::{BlameSample, CausesSample, Culprit, SchedSample, Snapshot, WorkloadKind, WorkloadSample},
};

pub(super) const MS: u64 = 1_000_000;
pub(super) const POD: &str = "checkout-7d9c5b6f4-x2x9q";

pub(super) fn pod(namespace: &str, pod: &str) -> Culprit {
    Culprit { namespace: namespace.to_owned(), pod: pod.to_owned(), container: String::new() }
}

pub(super) fn unit(container: &str) -> Culprit {
    Culprit { container: container.to_owned(), ..Culprit::default() }
}

pub(super) fn target() -> Target {
    Target { who: pod("shop", POD), container: None }
}

/// One that waited for these causes, as often as given here.
pub(super) fn waiting(waits_ns: &[u64], causes: CausesSample, culprits: &[(Culprit, u64)]) -> SchedSample {
    let mut culprits = culprits.to_vec();
    culprits.sort();
    let blame = BlameSample { culprits, other_ns: 0 };
    SchedSample { causes: Some(causes), blame, ..sched(0, waits_ns, 0, 0) }
}

fn container(name: &str, sched: Option<SchedSample>) -> WorkloadSample {
    sample(workload("shop", POD, name), sched, None)
}

/// The server waited for each cause, the proxy for one neighbour only.
pub(super) fn server() -> SchedSample {
    let causes = CausesSample {
        throttled_ns: 400 * MS,
        same_pod_ns: 100 * MS,
        other_pod_ns: 300 * MS,
        system_ns: 120 * MS,
        kernel_ns: 40 * MS,
        interrupt_ns: 20 * MS,
        idle_ns: 2 * MS,
        unknown_ns: 8 * MS,
    };
    let culprits = [
        (pod("batch-processing", "nightly-report-generator-28833120-l4k7d"), 250 * MS),
        (pod("shop", "search-0"), 30 * MS),
        (unit("system.slice/containerd.service"), 100 * MS),
    ];
    let ms = |length: u64| length * MS;
    waiting(&[ms(500), ms(300), ms(120), ms(40), ms(30)], causes, &culprits)
}

pub(super) fn proxy() -> SchedSample {
    let causes = CausesSample { other_pod_ns: 10 * MS, ..CausesSample::default() };
    waiting(&[10 * MS], causes, &[(pod("shop", "search-0"), 10 * MS)])
}

/// The pod's containers with these numbers, and some others.
pub(super) fn node(seconds: u64, server: Option<SchedSample>, proxy: Option<SchedSample>) -> Snapshot {
    let idle = || Some(SchedSample::default());
    let mut nginx = sample(workload("", "", "nginx.service"), idle(), None);
    nginx.kind = WorkloadKind::Unit;
    let rest = [
        nginx,
        sample(workload("shop", "checkout-7d9c5b6f4-zzzzz", "server"), idle(), None),
        sample(workload("shop", "search-0", "server"), idle(), None),
        sample(workload("test", "search-0", "server"), idle(), None),
        sample(workload("", "", "/demo"), idle(), None),
        sample(workload("", "", "/demo/web"), idle(), None),
    ];
    let own = [container("server", server), container("istio-proxy", proxy)];
    snapshot(seconds, own.into_iter().chain(rest).collect())
}

/// Two seconds in which all of it happened.
pub(super) fn window() -> (Snapshot, Snapshot) {
    let none = || Some(SchedSample::default());
    (node(10, none(), none()), node(12, Some(server()), Some(proxy())))
}

/// As after its last cgroup was removed.
pub(super) fn gone(mut snapshot: Snapshot) -> Snapshot {
    let own = snapshot.workloads.iter_mut().filter(|sample| sample.workload.pod == POD);
    own.for_each(|sample| sample.gone = true);
    snapshot
}

/// As with hooks that see switches too early.
pub(super) fn by_functions(mut snapshot: Snapshot) -> Snapshot {
    for domain in snapshot.domains.iter_mut().filter(|domain| domain.name == "sched") {
        domain.hook = "fentry".to_owned();
    }
    for sched in snapshot.workloads.iter_mut().filter_map(|sample| sample.sched.as_mut()) {
        (sched.causes, sched.blame) = (None, BlameSample::default());
    }
    snapshot
}
