//! Whole pods: the sums over their containers.

use std::collections::HashMap;

use super::window::Done;
use crate::snapshot::{Workload, WorkloadKind};

/// The parts of a pod.
#[derive(Default)]
struct Parts {
    containers: Vec<Done>,
    /// The pod's own cgroup, if it has a limit.
    own: Option<Done>,
}

/// Returns pods and workloads outside of pods, and the containers of each pod.
pub(crate) fn whole(each: Vec<Done>) -> (Vec<Done>, HashMap<Workload, Vec<Done>>) {
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
