//! How large the node is. Map sizes depend on it and on the number of CPUs.

use std::fs;
use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;

use super::{Hierarchy, MemoryGroup, node};
use crate::cgroup::mounts::KeyHierarchy;

/// Size of this host at the start. A number is 0 if it is unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Scale {
    /// Memory of the node in bytes; 0 if unknown.
    pub memory_bytes: u64,
    /// Lowest memory limit in bytes of the agent's own cgroup and its visible ancestors. `None` without a
    /// limit.
    pub memory_limit_bytes: Option<u64>,
    /// Number of cgroups in the hierarchy whose ids identify workloads; 0 if unknown.
    pub cgroups: u32,
    /// Number of block devices with a size. A loop device without a backing file has none and is not counted.
    pub disks: u32,
}

impl Scale {
    pub(super) fn collect(hierarchy: Option<&Hierarchy>, groups: &[MemoryGroup]) -> Self {
        Self {
            memory_bytes: node::memory_bytes(),
            memory_limit_bytes: groups.iter().filter_map(|group| Some(group.usage()?.limit)).min(),
            cgroups: hierarchy.map_or(0, |hierarchy| cgroups(&hierarchy.key)),
            disks: disks(Path::new("/sys/block")),
        }
    }
}

/// Does not walk the tree: v2 counts its descendants (4.14), and `/proc/cgroups` counts those of each v1
/// controller.
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

/// Block devices with a size.
fn disks(block: &Path) -> u32 {
    let devices = fs::read_dir(block).into_iter().flatten().flatten();
    let sizes = devices.filter_map(|device| fs::read_to_string(device.path().join("size")).ok());
    let in_use = sizes.filter(|size| size.trim() != "0").count();
    u32::try_from(in_use).unwrap_or(u32::MAX)
}
