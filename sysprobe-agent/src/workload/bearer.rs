//! Who bears the numbers of a cgroup: a container or pod, a system service, the kernel, or nobody that is
//! known.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use crate::cgroup::name::Name;
use crate::pods::Answer;
use crate::pods::pod::Pod;
use crate::snapshot::{PodSample, Workload, WorkloadKind};

/// So many digits of a container's id tell it from the others of a node, as Docker prints it.
const SHORT_ID: usize = 12;

/// Who bears a cgroup's numbers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bearer {
    pub(crate) workload: Workload,
    pub(super) kind: WorkloadKind,
    pub(super) pod: Option<Arc<Pod>>,
    /// When the agent got to know the cgroup; `None` if that is not remembered.
    pub(super) since: Option<Instant>,
}

impl Bearer {
    /// What is no pod, or not known to be one.
    #[must_use]
    pub(crate) fn of_path(name: &Name) -> Self {
        Self { workload: labels("", "", &name.name), kind: name.kind, pod: None, since: None }
    }

    /// A container that only its pod is known of has its id as name.
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

    /// Of a cgroup that is known since then.
    #[must_use]
    pub(crate) fn since(self, since: Instant) -> Self {
        Self { since: Some(since), ..self }
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
        Self {
            workload: labels("", "", Workload::KERNEL),
            kind: WorkloadKind::Kernel,
            pod: None,
            since: None,
        }
    }

    /// What cannot be attributed.
    #[must_use]
    pub(crate) fn unknown() -> Self {
        Self {
            workload: labels("", "", Workload::UNKNOWN),
            kind: WorkloadKind::Unknown,
            pod: None,
            since: None,
        }
    }

    /// Whether the answer says nothing new about the cgroup of this name.
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

/// The label `container`. A container outside of a pod that is called as the agent calls what is no workload
/// has its id behind its name; no runtime takes a name with an `@`.
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
