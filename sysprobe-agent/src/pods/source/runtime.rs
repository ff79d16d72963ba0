//! The files that container runtimes keep of each running container, read for one id at a time. They exist
//! before the container's cgroup does, so this source is never late.
//!
//! The id is the only part of a path that comes from a cgroup, and it consists of digits only. The files are
//! root's, but much of their content is the user's: they are read up to a size, and only names are taken from
//! them.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use tracing::debug;

use crate::pods::id::ContainerId;
use crate::pods::plan::RuntimePlan;
use crate::pods::pod::Pod;

mod containerd;
mod crio;
mod docker;
mod labels;
mod podman;

/// A specification with ten thousand environment variables is smaller.
const FILE_MAX: u64 = 4 << 20;

/// What the files say about an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::pods) enum Found {
    /// A part of a pod, with this container or sandbox only.
    InPod(Arc<Pod>),
    /// A container outside of pods.
    Plain(Arc<str>),
}

#[derive(Clone, Debug)]
pub(in crate::pods) struct Runtime {
    plan: RuntimePlan,
}

impl Runtime {
    pub(in crate::pods) const fn new(plan: RuntimePlan) -> Self {
        Self { plan }
    }

    /// `pod_uid` comes from the cgroup's path.
    pub(in crate::pods) fn look_up(&self, id: ContainerId, pod_uid: Option<&str>) -> Option<Found> {
        let RuntimePlan { containerd, crio, docker, podman } = &self.plan;
        let found = containerd.iter().find_map(|state| containerd::look_up(state, id, pod_uid));
        let found = found.or_else(|| crio.iter().find_map(|run| crio::look_up(run, id, pod_uid)));
        let found = found.or_else(|| docker.iter().find_map(|root| docker::look_up(root, id, pod_uid)));
        found.or_else(|| podman.iter().find_map(|root| podman::look_up(root, id)))
    }
}

/// `None` if there is no such file. A file that cannot be read or parsed is logged at level debug.
fn read<T: DeserializeOwned>(path: &Path) -> Option<T> {
    // Refuses links and does not wait for pipes, should a process other than the runtime ever write into the
    // directory.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return None,
        Err(error) => {
            debug!(%error, path = %path.display(), "A container's file cannot be opened.");
            return None;
        }
    };
    let mut text = Vec::new();
    let read = file.take(FILE_MAX).read_to_end(&mut text).map_err(anyhow::Error::from);
    read.and_then(|_| Ok(serde_json::from_slice(&text)?))
        .inspect_err(|error| debug!(%error, path = %path.display(), "A container's file is not understood."))
        .ok()
}

#[cfg(test)]
mod tests;
