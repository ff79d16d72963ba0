//! The owner of a cgroup, as far as it is known.

use std::sync::Arc;

use super::pod::Pod;

/// The container name that other exporters give a pause container.
pub const SANDBOX_NAME: &str = "POD";

/// Cheap to copy: names are shared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Container {
        pod: Arc<Pod>,
        container: Arc<str>,
    },
    /// The pause container.
    Sandbox {
        pod: Arc<Pod>,
    },
    /// The cgroup is the pod's own, or that of a container that is not known yet.
    Pod {
        pod: Arc<Pod>,
    },
    /// A container outside of pods that has a name.
    Plain {
        name: Arc<str>,
    },
    Unknown,
}

impl Answer {
    /// `None` outside of pods, or if unknown.
    #[must_use]
    pub const fn pod(&self) -> Option<&Arc<Pod>> {
        match self {
            Self::Container { pod, .. } | Self::Sandbox { pod } | Self::Pod { pod } => Some(pod),
            Self::Plain { .. } | Self::Unknown => None,
        }
    }

    /// The label `container`; `None` if only the pod, or nothing, is known.
    #[must_use]
    pub fn container(&self) -> Option<&str> {
        match self {
            Self::Container { container, .. } => Some(container),
            Self::Sandbox { .. } => Some(SANDBOX_NAME),
            Self::Plain { name } => Some(name),
            Self::Pod { .. } | Self::Unknown => None,
        }
    }
}
