//! The owner of a cgroup's counters: a container or pod, a system service, the kernel, or an unknown one.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use crate::cgroup::name::Name;
use crate::pods::Answer;
use crate::pods::pod::Pod;
use crate::snapshot::{PodSample, Workload, WorkloadKind};

/// This many digits identify a container on a node; Docker prints as many.
const SHORT_ID: usize = 12;

/// The owner of a cgroup's counters.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Owner {
    pub(crate) workload: Workload,
    pub(super) kind: WorkloadKind,
    pub(super) pod: Option<Arc<Pod>>,
    /// When the agent learned of the cgroup; `None` if that is not kept.
    pub(super) since: Option<Instant>,
}

impl Owner {
    /// The owner of a cgroup that is not known to belong to a pod.
    #[must_use]
    pub(crate) fn of_path(name: &Name) -> Self {
        Self { workload: labels("", "", &name.name), kind: name.kind, pod: None, since: None }
    }

    /// The owner by an answer of the pod sources. A container of which only the pod is known is named by its
    /// ID.
    #[must_use]
    pub(crate) fn of_answer(answer: &Answer, name: &Name) -> Self {
        let container = &*shown(answer, name);
        let Some(pod) = answer.pod() else {
            return match answer {
                Answer::Plain { .. } => Self { workload: labels("", "", container), ..Self::of_path(name) },
                _ => Self::of_path(name),
            };
        };
        let kind = if container.is_empty() { WorkloadKind::Pod } else { WorkloadKind::Container };
        let workload = labels(&pod.namespace, &pod.name, container);
        Self { workload, kind, pod: Some(Arc::clone(pod)), since: None }
    }

    /// Sets the time since when the cgroup is known.
    #[must_use]
    pub(crate) fn since(self, since: Instant) -> Self {
        Self { since: Some(since), ..self }
    }

    /// Whether both belong to the same pod or, outside of pods, to the same workload.
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
        Self {
            workload: labels("", "", Workload::KERNEL),
            kind: WorkloadKind::Kernel,
            pod: None,
            since: None,
        }
    }

    /// Activity that cannot be attributed.
    #[must_use]
    pub(crate) fn unknown() -> Self {
        Self {
            workload: labels("", "", Workload::UNKNOWN),
            kind: WorkloadKind::Unknown,
            pod: None,
            since: None,
        }
    }

    /// Whether the answer about the cgroup of this name confirms this owner.
    #[must_use]
    pub(crate) fn is_of(&self, answer: &Answer, name: &Name) -> bool {
        let is_same_pod = match (&self.pod, answer.pod()) {
            (Some(ours), Some(theirs)) => Arc::ptr_eq(ours, theirs),
            (None, None) => true,
            _ => false,
        };
        is_same_pod && shown(answer, name) == self.workload.container
    }
}

/// The label `container`. A container outside of pods gets its ID appended if its name is one of the agent's
/// own; no runtime accepts an `@` in a name.
fn shown<'a>(answer: &'a Answer, name: &'a Name) -> Cow<'a, str> {
    let id = name.container_id.as_deref().unwrap_or_default();
    match answer {
        Answer::Plain { name } if Workload::OWN_NAMES.contains(&&**name) => {
            format!("{name}@{}", id.get(..SHORT_ID).unwrap_or(id)).into()
        }
        _ => answer.container().unwrap_or(id).into(),
    }
}

fn labels(namespace: &str, pod: &str, container: &str) -> Workload {
    Workload { namespace: namespace.to_owned(), pod: pod.to_owned(), container: container.to_owned() }
}

/// The properties of a sample's pod.
pub(super) fn describe(pod: &Pod) -> PodSample {
    let owner = pod.owner.as_ref();
    // Users know the Deployment rather than the ReplicaSet that it created.
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
