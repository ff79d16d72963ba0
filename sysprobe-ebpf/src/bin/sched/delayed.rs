//! Sleeps that the kernel counts as waits (`sched_delayed`, Linux 6.12). They are not counted.

use sysprobe_common::sched::{SchedLoss, SchedTask, flag};
use sysprobe_ebpf::kernel::Object;

use crate::losses::lose;
use crate::task::{OFF_TASK_RUN_COUNT, OFF_TASK_RUN_DELAY};

/// Skips a sleep that the kernel counted as a wait, up to this total.
#[inline(always)]
pub(crate) fn skip_wait(last: &mut SchedTask, run_delay: u64) {
    if run_delay != last.run_delay {
        lose(SchedLoss::DelayedSleeper);
    }
    last.run_delay = run_delay;
    last.flags &= flag::OF_TASK;
}

/// The same for a task that has had a CPU since. Its arrival ended no wait, so it is skipped as well.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "as it is remembered")]
pub(crate) fn skip_sleep(task: impl Object, last: &mut SchedTask) {
    let arrivals = task.u64_or_zero(&OFF_TASK_RUN_COUNT) as u32;
    if arrivals != last.arrivals {
        skip_wait(last, task.u64_or_zero(&OFF_TASK_RUN_DELAY));
        last.arrivals = arrivals;
    }
}
