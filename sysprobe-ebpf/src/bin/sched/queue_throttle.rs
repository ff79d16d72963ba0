//! Kernels that throttle a group's queue as a whole (before 6.18): the functions that do so on a CPU, for the
//! group's queue and those of all groups below.

use sysprobe_common::sched::throttle::Throttle;
use sysprobe_ebpf::globals;
use sysprobe_ebpf::kernel::{ABSENT, Address, Object};

use crate::queue::OFF_TASK_GROUP_QUEUE;
use crate::throttle::{OFF_GROUP_QUEUE_GROUP, OFF_GROUP_QUEUE_THROTTLED_SINCE, OFF_TASK_THROTTLED};
use crate::{queue, throttle, timeline};

globals!(
    /// `cfs_rq.throttle_count`: the number of throttled groups that a queue is in.
    OFF_GROUP_QUEUE_THROTTLE_COUNT,
    /// The number of threads in a queue, including those of groups below.
    OFF_GROUP_QUEUE_THREADS,
);

/// `tg_throttle_down`: a group is throttled, or is below one that is.
#[inline(always)]
pub(crate) fn begins(group: Address, run_queue: Address) {
    let Some(queue) = queue_of(group, run_queue) else { return };
    if queue.load_u32(&OFF_GROUP_QUEUE_THROTTLE_COUNT) == 0 {
        let since = queue::clock(run_queue).unwrap_or(0);
        if let Some(throttle) = throttle::record_of(queue.0) {
            // SAFETY: the pointer is into the map's memory and stays valid while the program runs; the run
            // queue is locked.
            let throttle = unsafe { &mut *throttle };
            *throttle = Throttle {
                since,
                earlier_since: throttle.since,
                earlier_until: throttle.until,
                ..Throttle::NEW
            };
        } else {
            throttle::remember(queue.0, Throttle { since, ..Throttle::NEW });
        }
    }
}

/// `unthrottle_cfs_rq`: the throttle of a queue ends. The function has not yet set the clock.
#[inline(always)]
pub(crate) fn is_released(queue: Address) {
    if OFF_TASK_THROTTLED.load() != ABSENT {
        return;
    }
    if let Some(timeline) = timeline::of_this_cpu() {
        timeline.released_group = queue.load_u64(&OFF_GROUP_QUEUE_GROUP);
        timeline.released_since = queue.load_u64(&OFF_GROUP_QUEUE_THROTTLED_SINCE);
        timeline.released_threads = queue.load_u32(&OFF_GROUP_QUEUE_THREADS).into();
    }
}

/// `tg_unthrottle_up`: the throttle of a group, or of one above it, ends. The group whose quota it was comes
/// last.
#[inline(always)]
pub(crate) fn ends(group: Address, run_queue: Address) {
    let Some(queue) = queue_of(group, run_queue) else { return };
    let now = queue::clock(run_queue).unwrap_or(0);
    if queue.load_u32(&OFF_GROUP_QUEUE_THROTTLE_COUNT) == 1
        && let Some(throttle) = throttle::record_of(queue.0)
    {
        // SAFETY: the pointer is into the map's memory and stays valid while the program runs; the run queue
        // is locked.
        unsafe { (*throttle).until = now };
    }
    let Some(timeline) = timeline::of_this_cpu() else { return };
    if timeline.released_group == group.0 {
        timeline.released_group = 0;
        // A throttle without threads has no beginning and does not count.
        if timeline.released_since != 0 {
            let length = now.wrapping_sub(timeline.released_since);
            throttle::book(queue, length, timeline.released_threads);
        }
    }
}

/// Whether the task's group, or one above it, is throttled on the task's CPU.
#[inline(always)]
pub(crate) fn holds(task: impl Object) -> bool {
    if OFF_TASK_THROTTLED.load() != ABSENT || OFF_GROUP_QUEUE_THROTTLE_COUNT.load() == ABSENT {
        return false;
    }
    let count =
        task.follow(&OFF_TASK_GROUP_QUEUE).and_then(|queue| queue.u32(&OFF_GROUP_QUEUE_THROTTLE_COUNT));
    count.unwrap_or(0) != 0
}

/// The group's queue on that CPU.
#[inline(always)]
fn queue_of(group: Address, run_queue: Address) -> Option<Address> {
    if OFF_TASK_THROTTLED.load() != ABSENT {
        return None;
    }
    throttle::listed_queue(group, queue::cpu(run_queue)?)
}
