//! How large the node is: what the sizes of maps follow besides the CPUs.

use std::fs;
use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;

use super::{Hierarchy, MemoryGroup, node};
use crate::cgroup::mounts::KeyHierarchy;

/// What is found at start; 0 where it cannot be told.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Scale {
    /// The node's memory.
    pub memory_bytes: u64,
    /// The lowest memory limit of the agent's own cgroup and those above it, as far as they can be seen;
    /// `None` without one.
    pub memory_limit_bytes: Option<u64>,
    /// Cgroups in the hierarchy whose ids tell workloads apart.
    pub cgroups: u32,
    /// Block devices that are in use or can be: a loop device without a file does not count.
    pub disks: u32,
}

impl Scale {
    pub(super) fn collect(hierarchy: Option<&Hierarchy>, groups: &[MemoryGroup]) -> Self {
        Self {
            memory_bytes: node::memory_bytes(),
            memory_limit_bytes: groups.iter().filter_map(|group| Some(group.charge()?.limit)).min(),
            cgroups: hierarchy.map_or(0, |hierarchy| cgroups(&hierarchy.key)),
            disks: disks(Path::new("/sys/block")),
        }
    }
}

/// Without walking the tree: v2 counts its descendants (4.14), `/proc/cgroups` those of each controller of
/// v1.
fn cgroups(key: &KeyHierarchy) -> u32 {
    let count = match key {
        KeyHierarchy::V2 { root } => {
            let stat = fs::read_to_string(root.join("cgroup.stat")).unwrap_or_default();
            stat.lines().find_map(|line| line.strip_prefix("nr_descendants ")?.parse().ok())
        }
        KeyHierarchy::V1 { .. } => {
            let controllers = fs::read_to_string("/proc/cgroups").unwrap_or_default();
            controllers.lines().find_map(|line| {
                let mut fields = line.split_whitespace();
                (fields.next()? == "cpu").then(|| fields.nth(1)?.parse().ok()).flatten()
            })
        }
    };
    count.unwrap_or(0)
}

/// Those that have a size.
fn disks(block: &Path) -> u32 {
    let devices = fs::read_dir(block).into_iter().flatten().flatten();
    let sizes = devices.filter_map(|device| fs::read_to_string(device.path().join("size")).ok());
    let in_use = sizes.filter(|size| size.trim() != "0").count();
    u32::try_from(in_use).unwrap_or(u32::MAX)
}
