//! The files that container runtimes keep of each running container, asked for one id at a time. They are
//! there before the container's cgroup is, so this source is never late.
//!
//! The id is the only part of a path that comes from a cgroup, and cannot be anything but digits. The files
//! are root's, but much in them is the user's: they are read up to a size, and only names are taken from
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

/// What the files say of an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::pods) enum Found {
    /// A container or sandbox of this pod, which has no other.
    InPod(Arc<Pod>),
    /// A container that is in no pod.
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

    /// `pod_uid` is that of the cgroup's path.
    pub(in crate::pods) fn look_up(&self, id: ContainerId, pod_uid: Option<&str>) -> Option<Found> {
        let RuntimePlan { containerd, crio, docker, podman } = &self.plan;
        let found = containerd.iter().find_map(|state| containerd::look_up(state, id, pod_uid));
        let found = found.or_else(|| crio.iter().find_map(|run| crio::look_up(run, id, pod_uid)));
        let found = found.or_else(|| docker.iter().find_map(|root| docker::look_up(root, id, pod_uid)));
        found.or_else(|| podman.iter().find_map(|root| podman::look_up(root, id)))
    }
}

/// `None` if there is no such file. One that cannot be read or understood is worth a line for whoever looks
/// for it.
fn read<T: DeserializeOwned>(path: &Path) -> Option<T> {
    // Neither a link nor a pipe, should anybody but the runtime ever have a hand in the directory.
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
