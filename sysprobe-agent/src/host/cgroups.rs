//! Which cgroup hierarchy is the key on this host.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, bail};

use super::Hierarchy;
use crate::cgroup::mounts::Mounts;

/// Reads the mounts; `under` limits them to a directory at which the host's are mounted.
pub(super) fn collect(under: Option<&Path>) -> anyhow::Result<Hierarchy> {
    let mountinfo =
        std::fs::read_to_string("/proc/self/mountinfo").context("reading /proc/self/mountinfo")?;
    let mounts = match under {
        Some(directory) => Mounts::under(&mountinfo, directory),
        None => Mounts::parse(&mountinfo),
    };
    let Some(key) = mounts.key() else {
        bail!(
            "no cgroup hierarchy is mounted: mount one, or name the directory of the host's with --cgroup-root"
        );
    };
    let root = key.root();
    let root_id = root.metadata().with_context(|| format!("looking at {}", root.display()))?.ino();
    Ok(Hierarchy { key, root_id })
}
