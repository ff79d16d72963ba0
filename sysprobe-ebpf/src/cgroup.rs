//! The way from a `css_set` to the cgroup that is the key, for every domain that charges cgroups.

use aya_ebpf::Global;

use crate::kernel::read_u64;

/// `kernfs_node.id`: the cgroup's id.
#[unsafe(no_mangle)]
pub static OFF_KN_ID: Global<u32> = Global::new(0);
#[unsafe(no_mangle)]
static OFF_CGROUP_KN: Global<u32> = Global::new(0);
#[unsafe(no_mangle)]
static OFF_CSS_CGROUP: Global<u32> = Global::new(0);
/// From a `css_set` to the cgroup: `dfl_cgrp` on the default hierarchy; `subsys[cpu]` and its `cgroup` on v1.
#[unsafe(no_mangle)]
static OFF_CSS_SET_LINK: Global<u32> = Global::new(0);
/// 1 where the cgroup is reached through the cpu controller's state (v1), 0 on the default hierarchy.
#[unsafe(no_mangle)]
static CFG_VIA_CONTROLLER: Global<u32> = Global::new(0);

/// The address of a cgroup's `kernfs_node`.
#[inline(always)]
#[must_use]
pub fn node_of(cgroup: u64) -> Option<u64> {
    read_u64(cgroup, &OFF_CGROUP_KN)
}

/// The same of the cgroup that a task with this `css_set` is in.
#[inline(always)]
#[must_use]
pub fn node_of_css_set(css_set: u64) -> Option<u64> {
    let link = read_u64(css_set, &OFF_CSS_SET_LINK)?;
    node_of(if CFG_VIA_CONTROLLER.load() == 0 { link } else { read_u64(link, &OFF_CSS_CGROUP)? })
}
