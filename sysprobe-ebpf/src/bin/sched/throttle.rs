//! When a task's group was throttled: from the totals that the kernel keeps in the group's queue on each CPU.

use sysprobe_common::sched::{SchedTask, flag};
use sysprobe_ebpf::kernel::{ABSENT, Object};
use sysprobe_ebpf::settings;

use crate::queue::OFF_TASK_GROUP_QUEUE;
use crate::wait::Span;

settings!(
    /// Since 6.18 a task is throttled by itself, on its way back to user space.
    OFF_TASK_THROTTLED,
    /// Since when the group is throttled on this CPU, and how long it was before, ancestors' throttling included.
    OFF_GROUP_QUEUE_HELD_SINCE,
    OFF_GROUP_QUEUE_HELD_TOTAL,
);

/// Notes that a task was throttled as it leaves its CPU.
#[inline(always)]
pub(crate) fn note(task: impl Object, known: &mut SchedTask) {
    if OFF_TASK_THROTTLED.load() == ABSENT || task.u8(&OFF_TASK_THROTTLED).unwrap_or(0) == 0 {
        return;
    }
    let Some(queue) = task.follow(&OFF_TASK_GROUP_QUEUE) else { return };
    known.flags |= flag::HELD;
    known.held_since = queue.u64(&OFF_GROUP_QUEUE_HELD_SINCE).unwrap_or(0);
    known.held_before = queue.u64(&OFF_GROUP_QUEUE_HELD_TOTAL).unwrap_or(0);
}

/// When the task's group was throttled while it waited. A task that was throttled by itself can run again when its
/// queue's total has been added to.
#[inline(always)]
pub(crate) fn held(task: impl Object, last: &SchedTask, wait: Span) -> Span {
    if OFF_TASK_THROTTLED.load() == ABSENT || last.flags & flag::HELD == 0 {
        return Span::NONE;
    }
    let queue = task.follow(&OFF_TASK_GROUP_QUEUE);
    let total = queue.and_then(|queue| queue.u64(&OFF_GROUP_QUEUE_HELD_TOTAL)).unwrap_or(0);
    let to = last.held_since.wrapping_add(total.wrapping_sub(last.held_before));
    Span { from: wait.from, to }
}
