//! The task scan: all threads at one moment, counted by cgroup and state.
//!
//! Both objects use typed pointers, because an iterator's task always is one. Each thread's cgroup is looked
//! up afresh: what the switch has stored may be older than the thread's last move, and for a thread that has
//! not run since the agent's start it has stored nothing.

use core::ffi::c_void;

use aya_ebpf::bindings::BPF_F_MMAPABLE;
use aya_ebpf::btf_maps::Array;
use aya_ebpf::helpers::bpf_get_current_pid_tgid;
use aya_ebpf::macros::btf_map;
use sysprobe_common::sched::threads::{TASK_RUNNING, Thread, Threads};
use sysprobe_ebpf::cgroup::id_of_task;
use sysprobe_ebpf::globals;
use sysprobe_ebpf::iteration::{self, PartEnd};
use sysprobe_ebpf::kernel::{ABSENT, Typed};
use sysprobe_ebpf::slots::{OFF_TASK_FLAGS, is_kernel_thread};

use crate::slots::{find_slot, slot_of};
use crate::task::{OFF_TASK_PID, PF_EXITING};
use crate::{queue_throttle, throttle};

globals!(OFF_TASK_EXIT_STATE, OFF_TASK_ON_CPU, OFF_TASK_STATE,);

/// By slot. Sized by the agent, which sets it to 0 before each scan. One thread at a time runs a scan.
#[btf_map]
static SCHED_SCAN: Array<Threads, 1, { BPF_F_MMAPABLE as usize }> = Array::new();
#[btf_map]
pub(crate) static SCHED_PART_END: PartEnd = PartEnd::new();

/// Counts a thread.
#[unsafe(link_section = "iter/task")]
#[unsafe(no_mangle)]
extern "C" fn sched_scan(ctx: *mut c_void) -> i32 {
    // SAFETY: the context is that of an `iter/task` program.
    if let Some(task) = unsafe { iteration::task(ctx, &SCHED_PART_END) } {
        count(task);
    }
    0
}

#[inline(always)]
fn count(task: Typed) {
    // The scanning task runs only because of the scan, so it is not load.
    let is_self = task.load_u32(&OFF_TASK_PID) == current();
    let state = task.load_u32(&OFF_TASK_STATE);
    let thread = Thread {
        state,
        exit_state: task.load_u32(&OFF_TASK_EXIT_STATE),
        flags: task.load_u32(&OFF_TASK_FLAGS),
        is_on_cpu: is_on_cpu(task, is_self),
        // Most threads sleep, and their group's queue is in no cache.
        is_throttled: state == TASK_RUNNING && (throttle::is_throttled(task) || queue_throttle::holds(task)),
    };
    let Some(threads) = SCHED_SCAN.get_ptr_mut(slot(task, thread.flags)) else { return };
    // SAFETY: the pointer is into the map's memory and stays valid while the program runs.
    let threads = unsafe { &mut *threads };
    if let Some(count) = threads.states.get_mut(thread.what() as usize) {
        *count += 1;
    }
    if thread.is_load() && !is_self {
        threads.load += 1;
    }
}

/// Whether the thread is on a CPU, an `int`, or a byte in newer kernels. A kernel for a single CPU does not
/// keep it: there, only the scanning task is on the CPU.
#[inline(always)]
fn is_on_cpu(task: Typed, is_self: bool) -> bool {
    if OFF_TASK_ON_CPU.load() == ABSENT { is_self } else { task.load_u8(&OFF_TASK_ON_CPU) != 0 }
}

/// A cgroup may be removed while it still has zombies. They get no new slot, because the agent could not find
/// the cgroup's name any more.
#[inline(always)]
fn slot(task: Typed, flags: u32) -> u32 {
    let cgroup = id_of_task(task);
    if flags & PF_EXITING != 0 && !is_kernel_thread(task) {
        return slot_of(cgroup);
    }
    find_slot(task, cgroup)
}

/// The current thread's id in the initial PID namespace.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the thread's number is the lower half")]
fn current() -> u32 {
    bpf_get_current_pid_tgid() as u32
}
