//! Turns the runtime's sandboxes and containers into pods.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use super::messages::{Container, ContainerMetadata, PodSandbox};
use crate::pods::id::ContainerId;
use crate::pods::pod::{Pod, labels, text};

/// Prefix of the labels that the kubelet adds to a pod's own: the pod's names.
const KUBELETS: &str = "io.kubernetes.pod.";

/// A pod whose first sandbox died has several sandboxes, with a generation of its containers in each.
pub(super) fn of_lists(mut sandboxes: Vec<PodSandbox>, containers: Vec<Container>) -> Vec<Arc<Pod>> {
    let mut pods: HashMap<Arc<str>, Pod> = HashMap::new();
    let mut pod_of: HashMap<String, Arc<str>> = HashMap::new();
    // The newest sandbox has the pod's latest labels.
    sandboxes.sort_by_key(|sandbox| Reverse(sandbox.created_at));
    for sandbox in sandboxes {
        let id = sandbox.id.clone();
        let Some(found) = pod(sandbox) else { continue };
        pod_of.insert(id, Arc::clone(&found.uid));
        pods.entry(Arc::clone(&found.uid))
            .and_modify(|pod| pod.sandboxes.extend(&found.sandboxes))
            .or_insert(found);
    }
    for container in containers {
        let pod = pod_of.get(&container.pod_sandbox_id).and_then(|uid| pods.get_mut(uid));
        if let Some(pod) = pod {
            add(pod, &container.id, container.metadata);
        }
    }
    pods.into_values().map(Arc::new).collect()
}

fn pod(PodSandbox { id, metadata, labels: of_sandbox, .. }: PodSandbox) -> Option<Pod> {
    let metadata = metadata?;
    let of_pod = of_sandbox.into_iter().filter(|(key, _)| !key.starts_with(KUBELETS));
    Some(Pod {
        uid: text(&metadata.uid),
        namespace: text(&metadata.namespace),
        name: text(&metadata.name),
        sandboxes: ContainerId::parse(&id).into_iter().collect(),
        labels: Some(labels(of_pod)),
        ..Pod::default()
    })
}

fn add(pod: &mut Pod, id: &str, metadata: Option<ContainerMetadata>) {
    if let (Some(id), Some(metadata)) = (ContainerId::parse(id), metadata) {
        pod.add_container(&text(&metadata.name), None, &[id]);
    }
}

#[cfg(test)]
mod tests;
