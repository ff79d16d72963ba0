//! The images of the rig: the agent's own, and one that is made here, a static busybox in an OCI archive. The
//! workloads use the second one, and it is also the pause image that keeps a pod's namespaces open.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::json;

use super::parts::Parts;
use super::places;
use crate::oci::{self, Image};

pub(super) const NAME: &str = "sysprobe.test/busybox:1";

/// The agent's image, under the name that the chart gets.
pub(super) const AGENT: &str = "sysprobe.test/sysprobe:e2e";

/// The busybox commands that the workloads call.
const LINKS: [&str; 7] = ["cat", "dd", "nc", "rm", "sh", "sleep", "usleep"];

/// Where the agent's image is once it has been built.
pub(super) fn agent() -> PathBuf {
    places::laboratory().join("agent-image.tar")
}

/// Makes the archive; returns it.
pub(super) fn make(parts: &Parts) -> Result<PathBuf> {
    let directory = places::state().join("image");
    let root = root(parts, &directory.join("root"))?;
    let image = Image {
        name: NAME,
        root: &root,
        config: json!({ "Entrypoint": ["sleep", "1000000"], "Env": ["PATH=/bin"] }),
        labels: json!({}),
        time: 0,
    };
    Ok(oci::archive(&image, &directory.join("archive"))?.0)
}

/// A root file system with busybox and its names.
pub(super) fn root(parts: &Parts, directory: &Path) -> Result<PathBuf> {
    let bin = directory.join("bin");
    fs::create_dir_all(&bin)?;
    let busybox = parts.busybox();
    fs::copy(&busybox, bin.join("busybox")).with_context(|| format!("copying {}", busybox.display()))?;
    for name in LINKS {
        symlink("busybox", bin.join(name))?;
    }
    for mount_point in ["dev", "proc", "sys", "tmp"] {
        fs::create_dir_all(directory.join(mount_point))?;
    }
    Ok(directory.to_owned())
}
