//! Merges the views that several sources have of one pod, the most trustworthy first: each fills in what the
//! earlier ones do not know, and contradicts nothing.

use std::sync::Arc;

use crate::pods::id::ContainerId;
use crate::pods::pod::Pod;

/// The role of a container in its pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Container(Arc<str>),
    Sandbox,
}

/// `None` if no source knows the pod.
pub(super) fn merge<'a>(mut views: impl Iterator<Item = &'a Arc<Pod>>) -> Option<Arc<Pod>> {
    let best = views.next()?;
    // Usually there is one source, and then nothing is copied.
    let Some(second) = views.next() else { return Some(Arc::clone(best)) };
    let mut pod = Pod::clone(best);
    for view in std::iter::once(second).chain(views) {
        fill(&mut pod, view);
    }
    Some(Arc::new(pod))
}

fn fill(pod: &mut Pod, view: &Pod) {
    pod.node = pod.node.take().or_else(|| view.node.clone());
    pod.owner = pod.owner.take().or_else(|| view.owner.clone());
    pod.qos = pod.qos.or(view.qos);
    pod.labels = pod.labels.take().or_else(|| view.labels.clone());
    pod.host_network = pod.host_network.or(view.host_network);
    pod.add_unknown_of(view);
}

/// The role of each id of a pod.
pub(super) fn roles(pod: &Pod) -> Vec<(ContainerId, Role)> {
    let containers = pod.containers.iter().flat_map(|container| {
        container.ids.iter().map(|id| (*id, Role::Container(Arc::clone(&container.name))))
    });
    containers.chain(pod.sandboxes.iter().map(|id| (*id, Role::Sandbox))).collect()
}
