//! Pods as one: the sum of what their containers did.

use std::collections::HashMap;

use super::window::Done;
use crate::snapshot::{Workload, WorkloadKind};

/// Pods, and what is in no pod; and the containers of each pod. What a pod's own cgroup did is the pod's alone.
pub(super) fn whole(each: Vec<Done>) -> (Vec<Done>, HashMap<Workload, Vec<Done>>) {
    let (mut whole, mut parts) = (Vec::new(), HashMap::<Workload, Vec<Done>>::new());
    let mut pods = HashMap::<Workload, Done>::new();
    for done in each {
        let Some(pod) = done.pod() else {
            whole.push(done);
            continue;
        };
        match pods.get_mut(&pod) {
            Some(sum) => sum.add(&done),
            None => drop(pods.insert(pod.clone(), Done { workload: pod.clone(), ..done.clone() })),
        }
        if done.kind != WorkloadKind::Pod {
            parts.entry(pod).or_default().push(done);
        }
    }
    whole.extend(pods.into_values().map(|pod| Done { kind: WorkloadKind::Pod, ..pod }));
    (whole, parts)
}
