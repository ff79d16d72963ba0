//! The run queue of a task's CPU, reached through the task. The kernel's timestamps of arrivals and waits are
//! by the queue's own clock.

use sysprobe_ebpf::globals;
use sysprobe_ebpf::kernel::Object;

globals!(
    /// `task_struct.se.cfs_rq`: the queue of the task's group on its CPU. Every task has one, whatever its
    /// scheduling class.
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

/// The queue's clock. The kernel updates it in each pass through the scheduler before the switch, and
/// whenever a task is enqueued or dequeued.
#[inline(always)]
pub(crate) fn clock(queue: impl Object) -> Option<u64> {
    queue.u64(&OFF_QUEUE_CLOCK)
}

#[inline(always)]
pub(crate) fn cpu(queue: impl Object) -> Option<u32> {
    queue.u32(&OFF_QUEUE_CPU)
}

/// The task that runs on the queue's CPU.
#[inline(always)]
pub(crate) fn running<T: Object>(queue: T) -> Option<T> {
    queue.follow(&OFF_QUEUE_RUNNING)
}
