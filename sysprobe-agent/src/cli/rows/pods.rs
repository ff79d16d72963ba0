//! Whole pods: the sums over their containers.

use std::collections::HashMap;

use super::window::{self, Done, Window};
use super::{Row, row};
use crate::snapshot::{Snapshot, Workload, WorkloadKind, WorkloadSample};

/// What the wanted workloads did in a window, by pod. Rows are in any order.
pub(crate) struct PodRows {
    window: Window,
    /// Pods and workloads outside of pods.
    whole: Vec<Done>,
    containers: HashMap<Workload, Vec<Done>>,
}

impl PodRows {
    pub(crate) fn of(
        earlier: &Snapshot,
        later: &Snapshot,
        is_wanted: impl Fn(&WorkloadSample) -> bool,
    ) -> Self {
        let (whole, containers) = whole(window::each(earlier, later, is_wanted).collect());
        Self { window: Window::of(earlier, later), whole, containers }
    }

    /// The rows of pods and of workloads outside of pods.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Row> {
        self.whole.iter().map(|done| row(done, self.window))
    }

    /// The rows of a pod's containers.
    pub(crate) fn containers(&self, pod: &Workload) -> impl Iterator<Item = Row> {
        self.containers.get(pod).into_iter().flatten().map(|done| row(done, self.window))
    }

    /// The rows of everything.
    pub(crate) fn all(&self) -> impl Iterator<Item = Row> {
        let containers = self.containers.values().flatten().map(|done| row(done, self.window));
        self.rows().chain(containers)
    }
}

/// The parts of a pod.
#[derive(Default)]
struct Parts {
    containers: Vec<Done>,
    /// The pod's own cgroup, if it has a limit.
    own: Option<Done>,
}

/// Returns pods and workloads outside of pods, and the containers of each pod.
pub(super) fn whole(each: Vec<Done>) -> (Vec<Done>, HashMap<Workload, Vec<Done>>) {
    let (mut whole, mut pods) = (Vec::new(), HashMap::<Workload, Parts>::new());
    for done in each {
        match done.pod() {
            None => whole.push(done),
            Some(pod) if done.kind == WorkloadKind::Pod => pods.entry(pod).or_default().own = Some(done),
            Some(pod) => pods.entry(pod).or_default().containers.push(done),
        }
    }
    let mut containers = HashMap::new();
    for (pod, parts) in pods {
        whole.extend(parts.sum(&pod));
        containers.insert(pod, parts.containers);
    }
    (whole, containers)
}

impl Parts {
    fn sum(&self, pod: &Workload) -> Option<Done> {
        let mut containers = self.containers.iter();
        let mut sum = containers.next().or(self.own.as_ref())?.clone();
        containers.for_each(|container| sum.add(container));
        if let Some(own) = self.own.as_ref().filter(|_| !self.containers.is_empty()) {
            sum.add_own(own);
        }
        Some(Done { workload: pod.clone(), kind: WorkloadKind::Pod, ..sum })
    }
}
