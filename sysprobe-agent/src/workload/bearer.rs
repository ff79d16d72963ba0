//! Who bears the numbers of a cgroup: a container or pod, a system service, the kernel, or nobody that is known.

use std::sync::Arc;

use crate::cgroup::name::Name;
use crate::pods::Answer;
use crate::pods::pod::Pod;
use crate::snapshot::{PodSample, Workload, WorkloadKind};

/// Who bears a cgroup's numbers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bearer {
    pub(crate) workload: Workload,
    pub(super) kind: WorkloadKind,
    pub(super) pod: Option<Arc<Pod>>,
}

impl Bearer {
    /// What is no pod, or not known to be one.
    #[must_use]
    pub(crate) fn of_path(name: &Name) -> Self {
        Self { workload: labels("", "", &name.name), kind: name.kind, pod: None }
    }

    /// A container that only its pod is known of has its id as name.
    #[must_use]
    pub(crate) fn of_answer(answer: &Answer, name: &Name) -> Self {
        let container = answer.container().or(name.container_id.as_deref()).unwrap_or_default();
        let Some(pod) = answer.pod() else {
            return match answer {
                Answer::Plain { .. } => Self { workload: labels("", "", container), ..Self::of_path(name) },
                _ => Self::of_path(name),
            };
        };
        let kind = if container.is_empty() { WorkloadKind::Pod } else { WorkloadKind::Container };
        Self { workload: labels(&pod.namespace, &pod.name, container), kind, pod: Some(Arc::clone(pod)) }
    }

    /// Whether what one of them runs is the other's own doing.
    #[must_use]
    pub(super) fn is_of_same_pod(&self, other: &Self) -> bool {
        if self.pod.is_some() || other.pod.is_some() {
            let (own, other) = (&self.workload, &other.workload);
            return own.pod == other.pod && own.namespace == other.namespace;
        }
        self.workload == other.workload
    }

    /// Kernel threads.
    #[must_use]
    pub(crate) fn kernel() -> Self {
        Self { workload: labels("", "", "kernel"), kind: WorkloadKind::Kernel, pod: None }
    }

    /// What cannot be attributed.
    #[must_use]
    pub(crate) fn unknown() -> Self {
        Self { workload: labels("", "", "unknown"), kind: WorkloadKind::Unknown, pod: None }
    }

    /// Whether the answer says nothing new.
    #[must_use]
    pub(crate) fn is_of(&self, answer: &Answer) -> bool {
        let is_same_pod = match (&self.pod, answer.pod()) {
            (Some(ours), Some(theirs)) => Arc::ptr_eq(ours, theirs),
            (None, None) => true,
            _ => false,
        };
        is_same_pod && answer.container().unwrap_or_default() == self.workload.container
    }
}

fn labels(namespace: &str, pod: &str, container: &str) -> Workload {
    Workload { namespace: namespace.to_owned(), pod: pod.to_owned(), container: container.to_owned() }
}

/// What a sample says of its pod.
pub(super) fn describe(pod: &Pod) -> PodSample {
    let owner = pod.owner.as_ref();
    // What made the ReplicaSet is what people know.
    let deployment = owner.and_then(|owner| owner.deployment.as_deref());
    PodSample {
        uid: pod.uid.to_string(),
        node: pod.node.as_deref().map(str::to_owned),
        qos: pod.qos,
        owner_kind: deployment
            .map_or_else(|| owner.map(|owner| owner.kind.to_string()), |_| Some("Deployment".into())),
        owner_name: deployment
            .map_or_else(|| owner.map(|owner| owner.name.to_string()), |name| Some(name.into())),
        host_network: pod.host_network,
        labels: pod.labels.clone(),
    }
}
