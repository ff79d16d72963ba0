//! What the JSON form of one window of one workload has beyond what every window's has: what it is of, and
//! what it waited for a CPU.

use schemars::JsonSchema;
use serde::Serialize;

use super::Subject;
use crate::show::target::Target;

mod waits;

pub use waits::{CauseDocument, CulpritDocument, PartDocument, WaitsDocument};

/// What a command has to say of one workload.
#[derive(Debug, JsonSchema, Serialize)]
pub struct OfWorkload<'a, N> {
    pub workload: WorkloadDocument<'a>,
    #[serde(flatten)]
    pub numbers: N,
}

#[derive(Debug, JsonSchema, Serialize)]
pub struct WorkloadDocument<'a> {
    /// Empty for what is no pod.
    pub namespace: &'a str,
    /// Empty for what is no pod.
    pub pod: &'a str,
    /// Of a pod the container asked for, empty for all of them; else the systemd unit or the cgroup path:
    /// untrusted text.
    pub container: &'a str,
    /// How many containers are summed; zero for what is no pod.
    pub containers: usize,
    /// Whether no cgroup of it is left.
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
