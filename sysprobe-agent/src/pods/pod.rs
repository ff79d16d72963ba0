//! What is kept of a pod, from any source: names, ids, and what the command line shows. The rest of the
//! object, which may have a hundred kilobytes, is dropped.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::id::ContainerId;
use crate::cgroup::name::printable;
use crate::snapshot::{Labels, Qos};

/// Selectors use a few labels; an object may have hundreds.
const LABELS_MAX: usize = 64;

/// A pod as one source, or all of them together, know it. A field that they do not know is `None` or empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    pub uid: Arc<str>,
    /// The hash of a static pod's manifest. The API shows a mirror pod with a UID of its own, but the kubelet
    /// uses the hash as the UID, so the cgroups carry the hash.
    pub static_hash: Option<Arc<str>>,
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    pub node: Option<Arc<str>>,
    pub qos: Option<Qos>,
    pub owner: Option<Owner>,
    pub host_network: Option<bool>,
    pub labels: Option<Arc<Labels>>,
    pub containers: Vec<Container>,
    /// The pause containers, which the API does not list.
    pub sandboxes: Vec<ContainerId>,
}

/// One container of a pod's specification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    pub name: Arc<str>,
    /// The running container and the one before it. Each restart makes a container with a new id.
    pub ids: Vec<ContainerId>,
    pub kind: Option<ContainerKind>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContainerKind {
    Init,
    /// An init container that keeps running.
    Sidecar,
    Ordinary,
    Ephemeral,
}

/// The object that created the pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    pub kind: Arc<str>,
    pub name: Arc<str>,
    /// The Deployment, if the owner is a `ReplicaSet` with the name that a Deployment gives.
    pub deployment: Option<Arc<str>>,
}

impl Pod {
    /// The UID that the pod's cgroups carry, by which the pod is known here.
    #[must_use]
    pub fn key(&self) -> &Arc<str> {
        self.static_hash.as_ref().unwrap_or(&self.uid)
    }

    /// Adds an id to a container, and the container if it is new.
    pub fn add_container(&mut self, name: &Arc<str>, kind: Option<ContainerKind>, ids: &[ContainerId]) {
        let at = self.containers.iter().position(|container| container.name == *name).unwrap_or_else(|| {
            self.containers.push(Container { name: Arc::clone(name), ids: Vec::new(), kind: None });
            self.containers.len() - 1
        });
        let container = &mut self.containers[at];
        container.kind = container.kind.or(kind);
        container.ids.extend(ids);
    }

    /// Adds the containers' and sandboxes' ids that another view of the pod has in addition.
    pub(super) fn add_unknown_of(&mut self, other: &Self) {
        for container in &other.containers {
            let ids: Vec<_> = container.ids.iter().filter(|id| !self.has_id(id)).copied().collect();
            self.add_container(&container.name, container.kind, &ids);
        }
        let sandboxes: Vec<_> = other.sandboxes.iter().filter(|id| !self.has_id(id)).copied().collect();
        self.sandboxes.extend(sandboxes);
    }

    pub(super) fn without_containers(&self) -> Self {
        Self { containers: Vec::new(), sandboxes: Vec::new(), ..self.clone() }
    }

    /// Keeps only the last `count` ids of each container and of the sandboxes.
    pub(super) fn keep_newest(&mut self, count: usize) {
        let containers = self.containers.iter_mut().map(|container| &mut container.ids);
        for ids in containers.chain([&mut self.sandboxes]) {
            ids.drain(..ids.len().saturating_sub(count));
        }
    }

    /// Whether a container has not been created yet.
    pub(crate) fn is_starting(&self) -> bool {
        self.containers.iter().any(|container| container.ids.is_empty())
    }

    pub(super) fn has_id(&self, id: &ContainerId) -> bool {
        self.sandboxes.contains(id) || self.containers.iter().any(|container| container.ids.contains(id))
    }
}

/// Keeps the first labels by key, if there are too many.
#[must_use]
pub(super) fn labels(of: impl IntoIterator<Item = (String, String)>) -> Arc<Labels> {
    let printable = |(key, value): (String, String)| (printable(&key), printable(&value));
    let sorted: Labels = of.into_iter().map(printable).collect();
    Arc::new(sorted.into_iter().take(LABELS_MAX).collect())
}

/// Makes text from outside bounded and printable.
#[must_use]
pub(super) fn text(text: &str) -> Arc<str> {
    printable(text).into()
}
