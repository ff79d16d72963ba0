//! Keeps the last time slices of a task. They are not charged to a cgroup: other domains learn from them when
//! the task ran and waited.

use sysprobe_common::sched::slices::{SLICES, Slice, Slices};
use sysprobe_common::sched::{SchedTask, Timeline};
use sysprobe_ebpf::kernel::Object;

use crate::task::{OFF_TASK_LAST_ARRIVAL, OFF_TASK_RUN_COUNT, OFF_TASK_RUN_DELAY};
use crate::timeline::monotonic;

/// A task's wait and arrival, read before the task is accounted for.
#[derive(Clone, Copy)]
pub(crate) struct Before {
    waited: u64,
    is_new: bool,
}

/// Reads a task before it is accounted for.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "as it is remembered")]
pub(crate) fn before(task: impl Object, known: &SchedTask) -> Before {
    let waited = task.u64_or_zero(&OFF_TASK_RUN_DELAY).wrapping_sub(known.run_delay);
    Before {
        waited: if known.is_wait_known() { waited + known.waited_elsewhere() } else { 0 },
        is_new: task.u64_or_zero(&OFF_TASK_RUN_COUNT) as u32 != known.arrivals,
    }
}

/// Records the slice of a task that ended at `left` by the run queue's clock, or the current one if `left` is
/// 0.
#[inline(always)]
pub(crate) fn note(task: impl Object, slices: &mut Slices, before: Before, line: &Timeline, left: u64) {
    let left = if left == 0 { 0 } else { monotonic(line, left) };
    if before.is_new {
        slices.last += 1;
        let arrived = monotonic(line, task.u64_or_zero(&OFF_TASK_LAST_ARRIVAL));
        *slice(slices) = Slice { arrived, waited: before.waited, left };
    } else {
        slice(slices).left = left;
    }
}

#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "what counts are the lowest bits")]
fn slice(slices: &mut Slices) -> &mut Slice {
    let place = slices.last as usize & (SLICES - 1);
    // SAFETY: the place is within the ring.
    unsafe { slices.ring.get_unchecked_mut(place) }
}
