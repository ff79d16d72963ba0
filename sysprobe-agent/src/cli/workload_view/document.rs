//! The additional JSON fields of windows of one workload: the workload, and its waits for a CPU.

use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::subject::Subject;
use crate::cli::target::Target;

mod waits;

pub use waits::{CauseDocument, CulpritDocument, PartDocument, WaitsDocument};

/// A command's numbers about one workload.
#[derive(Debug, JsonSchema, Serialize)]
pub struct OfWorkload<'a, N> {
    /// The workload that the window is about.
    pub workload: WorkloadDocument<'a>,
    #[serde(flatten)]
    pub numbers: N,
}

/// The workload that the window is about.
#[derive(Debug, JsonSchema, Serialize)]
pub struct WorkloadDocument<'a> {
    /// Kubernetes namespace. Empty outside of pods.
    pub namespace: &'a str,
    /// Pod name. Empty outside of pods.
    pub pod: &'a str,
    /// For a pod, the container chosen with `--container`, or empty for all of them. Outside of pods, the
    /// container name or id, systemd unit or cgroup path (untrusted text).
    pub container: &'a str,
    /// Number of the pod's containers that are summed; 0 outside of pods.
    pub containers: usize,
    /// Whether the workload is gone: none of its cgroups is left.
    pub gone: bool,
}

impl<'a> WorkloadDocument<'a> {
    pub(super) fn new(target: &'a Target, subject: Option<&Subject>) -> Self {
        let only = target.container.as_deref().unwrap_or_default();
        Self {
            namespace: &target.who.namespace,
            pod: &target.who.pod,
            container: if target.who.pod.is_empty() { &target.who.container } else { only },
            containers: subject.map_or(0, |subject| subject.containers),
            gone: subject.is_none_or(|subject| subject.gone),
        }
    }
}
