//! Sleeps that the kernel counts as waits (`sched_delayed`, Linux 6.12): they are left out.

use sysprobe_common::sched::{SchedLoss, SchedTask, flag};
use sysprobe_ebpf::kernel::Object;

use crate::book::{OFF_TASK_RUN_COUNT, OFF_TASK_RUN_DELAY, lose};

/// Leaves out what the kernel counted as a wait and what is none, up to this total.
#[inline(always)]
pub(crate) fn skip_wait(last: &mut SchedTask, run_delay: u64) {
    if run_delay != last.run_delay {
        lose(SchedLoss::DelayedSleeper);
    }
    last.run_delay = run_delay;
    last.flags &= flag::OF_TASK;
}

/// The same of a task that has got a CPU since: it has nothing to show for the arrival.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "as it is remembered")]
pub(crate) fn skip_sleep(task: impl Object, last: &mut SchedTask) {
    let arrivals = task.u64_or_zero(&OFF_TASK_RUN_COUNT) as u32;
    if arrivals != last.arrivals {
        skip_wait(last, task.u64_or_zero(&OFF_TASK_RUN_DELAY));
        last.arrivals = arrivals;
    }
}
