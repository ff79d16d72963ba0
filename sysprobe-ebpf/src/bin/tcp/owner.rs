//! Whose a socket is: of the cgroup that connected it or listens with it, an accepted one of the cgroup that listens; and
//! from its first read by another cgroup on, of that one, since sockets are handed on.

use aya_ebpf::helpers::generated::bpf_get_current_task_btf;
use sysprobe_common::cgroup::{KERNEL, ROOT_ID};
use sysprobe_ebpf::cgroup::id_of_task;
use sysprobe_ebpf::kernel::Typed;
use sysprobe_ebpf::slots::is_kernel_thread;

/// The owner that the running task makes; see `Socket::owner`.
#[inline(always)]
pub(crate) fn current() -> u64 {
    // SAFETY: the helper returns a typed pointer to the current task.
    of_task(unsafe { Typed::new(bpf_get_current_task_btf().cast_const().cast()) })
}

#[inline(always)]
pub(crate) fn of_task(task: Typed) -> u64 {
    let id = id_of_task(task);
    if id == ROOT_ID && is_kernel_thread(task) { KERNEL } else { id }
}
