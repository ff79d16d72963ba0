//! The run queue of the CPU that a task is on, reached through the task: the queue's own clock is the one by
//! which the kernel stamps arrivals and waits.

use sysprobe_ebpf::kernel::Object;
use sysprobe_ebpf::settings;

settings!(
    /// Every task has one, whatever its scheduling class: that of its group on its CPU.
    OFF_TASK_GROUP_QUEUE,
    OFF_GROUP_QUEUE_QUEUE,
    OFF_QUEUE_CLOCK,
    OFF_QUEUE_CPU,
    OFF_QUEUE_RUNNING,
);

/// The run queue of a task's CPU.
#[inline(always)]
pub(crate) fn of<T: Object>(task: T) -> Option<T> {
    task.follow(&OFF_TASK_GROUP_QUEUE)?.follow(&OFF_GROUP_QUEUE_QUEUE)
}

/// What its clock says. The kernel sets it at each pass through the scheduler before it switches, and
/// whenever a task is queued or taken from the queue.
#[inline(always)]
pub(crate) fn clock(queue: impl Object) -> Option<u64> {
    queue.u64(&OFF_QUEUE_CLOCK)
}

#[inline(always)]
pub(crate) fn cpu(queue: impl Object) -> Option<u32> {
    queue.u32(&OFF_QUEUE_CPU)
}

/// The task that it runs.
#[inline(always)]
pub(crate) fn running<T: Object>(queue: T) -> Option<T> {
    queue.follow(&OFF_QUEUE_RUNNING)
}
