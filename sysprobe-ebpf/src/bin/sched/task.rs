//! What is read of a task: its totals, and how it was moved between cgroups.

use sysprobe_common::sched::SchedTask;
use sysprobe_common::slot;
use sysprobe_ebpf::cgroup::OFF_TASK_CGROUPS;
use sysprobe_ebpf::globals;
use sysprobe_ebpf::kernel::Object;

use crate::slots::changes;

globals!(
    OFF_TASK_LAST_ARRIVAL,
    OFF_TASK_NIVCSW,
    OFF_TASK_NVCSW,
    OFF_TASK_ON_CPU_TIME,
    OFF_TASK_PID,
    OFF_TASK_RUN_DELAY,
    OFF_TASK_RUN_COUNT,
    OFF_TASK_TGID,
    /// The agent's own process. A flush skips it, because on its CPU the flush is an ordinary call that a
    /// switch may interrupt.
    CFG_AGENT_TGID,
);

/// `PF_EXITING` of include/linux/sched.h; the value has not changed since 2.6.
pub(crate) const PF_EXITING: u32 = 4;

/// What the kernel has counted for a task so far, and what tells whether it may have another slot: see
/// `SchedTask`.
#[derive(Clone, Copy)]
pub(crate) struct Totals {
    pub(crate) run_delay: u64,
    pub(crate) on_cpu: u64,
    pub(crate) css_set: u64,
    pub(crate) changes: u32,
    pub(crate) arrivals: u32,
    pub(crate) voluntary: u32,
    pub(crate) involuntary: u32,
}

/// The task's totals as they are now.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "their differences are taken modulo 2^32")]
pub(crate) fn totals(task: impl Object) -> Option<Totals> {
    Some(Totals {
        run_delay: task.u64(&OFF_TASK_RUN_DELAY)?,
        on_cpu: task.u64(&OFF_TASK_ON_CPU_TIME)?,
        css_set: task.u64(&OFF_TASK_CGROUPS)?,
        changes: changes(),
        arrivals: task.u64(&OFF_TASK_RUN_COUNT)? as u32,
        voluntary: task.u64(&OFF_TASK_NVCSW)? as u32,
        involuntary: task.u64(&OFF_TASK_NIVCSW)? as u32,
    })
}

/// The record of a task that is older than the agent: its totals are the baseline, and it has no slot yet.
#[inline(always)]
pub(crate) fn baseline(task: impl Object) -> Option<SchedTask> {
    let now = totals(task)?;
    let Totals { css_set, changes, .. } = now;
    let mut record = SchedTask { css_set, changes, slot: slot::UNKNOWN, ..SchedTask::NEW };
    advance(&mut record, &now);
    Some(record)
}

/// The next accounting begins at these totals.
#[inline(always)]
pub(crate) const fn advance(last: &mut SchedTask, now: &Totals) {
    last.run_delay = now.run_delay;
    last.on_cpu = now.on_cpu;
    last.arrivals = now.arrivals;
    last.voluntary = now.voluntary;
    last.involuntary = now.involuntary;
}

/// Notes that the task is in another cgroup from now on. The moving process runs this while the task may run,
/// and be accounted for, on another CPU. At worst, the note is lost.
#[inline(always)]
pub(crate) fn mark_moved(task: impl Object, last: &mut SchedTask) {
    if let Some(on_cpu) = task.u64(&OFF_TASK_ON_CPU_TIME) {
        last.moved_at = on_cpu + 1;
    }
}
