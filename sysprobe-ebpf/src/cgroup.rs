//! From a task to its cgroup in the key hierarchy, for every domain that charges cgroups.

use sysprobe_common::cgroup::{KERNEL, ROOT_ID};

use crate::globals;
use crate::kernel::{Address, Object, Typed};
use crate::slots::is_kernel_thread;

globals!(
    /// `kernfs_node.id`: the cgroup's id.
    OFF_KN_ID,
    OFF_CGROUP_KN,
    OFF_CSS_CGROUP,
    /// From a `css_set` to the cgroup: `dfl_cgrp` on the default hierarchy; `subsys[cpu]` and its `cgroup` on
    /// v1.
    OFF_CSS_SET_LINK,
    OFF_TASK_CGROUPS,
    /// 1 where the cgroup is reached through the cpu controller's state (v1), 0 on the default hierarchy.
    CFG_VIA_CONTROLLER,
);

/// A cgroup's `kernfs_node`.
#[inline(always)]
#[must_use]
pub fn node_of<T: Object>(cgroup: T) -> Option<T> {
    cgroup.follow(&OFF_CGROUP_KN)
}

/// The cgroup that a task is in.
#[inline(always)]
#[must_use]
pub fn of_task<T: Object>(task: T) -> Option<T> {
    let link = task.follow(&OFF_TASK_CGROUPS)?.follow(&OFF_CSS_SET_LINK)?;
    if CFG_VIA_CONTROLLER.load() == 0 { Some(link) } else { link.follow(&OFF_CSS_CGROUP) }
}

/// The `kernfs_node` of a task's cgroup.
#[inline(always)]
#[must_use]
pub fn node_of_task<T: Object>(task: T) -> Option<T> {
    node_of(of_task(task)?)
}

/// A cgroup's id, 0 if it cannot be read.
#[inline(always)]
#[must_use]
pub fn id_of(cgroup: impl Object) -> u64 {
    node_of(cgroup).and_then(|node| node.u64(&OFF_KN_ID)).unwrap_or(0)
}

/// The id of the cgroup that a task is in, 0 if it cannot be read. Addresses along the path cannot replace
/// it: a `css_set` that was freed while the task slept may be reused for another cgroup.
#[inline(always)]
#[must_use]
pub fn id_of_task(task: impl Object) -> u64 {
    of_task(task).map_or(0, id_of)
}

/// The owner that a task's sockets and requests are charged to: its cgroup's id, [`KERNEL`], or 0 if it
/// cannot be read.
#[inline(always)]
#[must_use]
pub fn owner_of_task(task: impl Object) -> u64 {
    let id = id_of_task(task);
    if id == ROOT_ID && is_kernel_thread(task) { KERNEL } else { id }
}

/// The same for the current task.
#[inline(always)]
#[must_use]
pub fn owner_of_current() -> u64 {
    owner_of_task(Typed::current())
}

/// The same for programs without types.
#[inline(always)]
#[must_use]
pub fn owner_of_current_by_address() -> u64 {
    owner_of_task(Address::current())
}
