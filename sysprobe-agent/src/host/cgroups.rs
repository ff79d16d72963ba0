//! Which cgroup hierarchy is the key on this host, and its numbers in the kernel.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, bail};

use super::Hierarchy;
use crate::cgroup::mounts::{KeyHierarchy, Mounts};

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
    let id = match &key {
        KeyHierarchy::V2 { .. } => 0,
        KeyHierarchy::V1 { .. } => {
            let own = std::fs::read_to_string("/proc/self/cgroup").context("reading /proc/self/cgroup")?;
            hierarchy_of_cpu(&own).context("/proc/self/cgroup names no hierarchy with the cpu controller")?
        }
    };
    let root = key.root();
    let root_id = root.metadata().with_context(|| format!("looking at {}", root.display()))?.ino();
    Ok(Hierarchy { key, id, root_id })
}

/// Lines are `ID:CONTROLLERS:PATH`.
fn hierarchy_of_cpu(own_cgroups: &str) -> Option<u32> {
    own_cgroups.lines().find_map(|line| {
        let (id, rest) = line.split_once(':')?;
        let (controllers, _) = rest.split_once(':')?;
        controllers.split(',').any(|controller| controller == "cpu").then(|| id.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_controllers_hierarchy_is_found_among_similar_names() {
        let own = "13:cpuset:/\n4:cpu,cpuacct:/docker/1\n1:name=systemd:/\n0::/\n";
        assert_eq!(hierarchy_of_cpu(own), Some(4));
        assert_eq!(hierarchy_of_cpu("0::/init.scope\n"), None);
    }
}
