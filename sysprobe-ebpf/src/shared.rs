//! Maps of another domain's object; see `sysprobe-common/src/shared.rs`. Without that domain, a read-only
//! global has to keep programs from calling these functions, so that the verifier removes the calls.

use core::ffi::c_void;
use core::ptr;

use aya_ebpf::helpers::generated::{bpf_map_lookup_elem, bpf_task_storage_get};
use sysprobe_common::sched::Timeline;
use sysprobe_common::sched::slices::StoredTask;
use sysprobe_common::shared::{SCHED_TASKS, SCHED_TIMELINES, TCP_SOCKETS};
use sysprobe_common::tcp;

use crate::kernel::Typed;
use crate::storage::{SpreadStorage, storage_of};

/// The record that `sched` keeps of a task.
#[inline(always)]
#[must_use]
pub fn sched_task(task: Typed) -> Option<&'static StoredTask> {
    // SAFETY: the agent puts a map of this kind there.
    let stored = unsafe {
        let map = SCHED_TASKS as *mut c_void;
        bpf_task_storage_get(map, task.as_ptr().cast_mut().cast(), ptr::null_mut(), 0)
    };
    // SAFETY: task storage stays valid while the task does.
    unsafe { stored.cast::<StoredTask>().as_ref() }
}

/// The record that `tcp` keeps of a socket.
#[inline(always)]
#[must_use]
pub fn tcp_socket(socket: Typed) -> Option<&'static tcp::Socket> {
    // SAFETY: the agent puts a map of this kind there, of which only the address is used.
    let maps = unsafe { &*(TCP_SOCKETS as *const SpreadStorage<tcp::Socket>) };
    let stored = storage_of(maps, socket)?.get(socket)?;
    // SAFETY: socket storage stays valid while the socket does.
    unsafe { stored.as_ref() }
}

/// The timeline of a CPU.
#[inline(always)]
#[must_use]
pub fn sched_timeline(cpu: u32) -> Option<&'static Timeline> {
    // SAFETY: the agent puts a map of this kind there; its memory stays valid while the program runs.
    unsafe {
        let map = SCHED_TIMELINES as *mut c_void;
        bpf_map_lookup_elem(map, ptr::from_ref(&cpu).cast()).cast::<Timeline>().as_ref()
    }
}
