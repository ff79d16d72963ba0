//! Whose a socket is: of the cgroup that connected it or listens with it, an accepted one of the cgroup that listens; and
//! from its first read by another cgroup on, of that one, since sockets are handed on.

use aya_ebpf::helpers::generated::bpf_get_current_task_btf;
use sysprobe_ebpf::cgroup::owner_of_task;
use sysprobe_ebpf::kernel::Typed;

/// The owner that the running task makes; see `Socket::owner`.
#[inline(always)]
pub(crate) fn current() -> u64 {
    // SAFETY: the helper returns a typed pointer to the current task.
    owner_of_task(unsafe { Typed::new(bpf_get_current_task_btf().cast_const().cast()) })
}
