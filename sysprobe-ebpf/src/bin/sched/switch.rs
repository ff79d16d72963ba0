//! A switch, with the run queue's clock up to date: accounts for the task that leaves, and ends its run
//! interval. Also the migration of a waiting task: its wait so far is divided along the timeline of the CPU
//! that it leaves.

use core::ptr;
use core::sync::atomic::{Ordering, compiler_fence};

use sysprobe_common::sched::slices::Slices;
use sysprobe_common::sched::timeline::IDLE;
use sysprobe_common::sched::{RunInterval, SchedTask, Timeline, flag};
use sysprobe_common::slot;
use sysprobe_ebpf::globals;
use sysprobe_ebpf::kernel::{ABSENT, Object};
use sysprobe_ebpf::volatile::load_u32;

use crate::adding::add_u64;
use crate::slots::changes;
use crate::stats::stats_of;
use crate::task::{OFF_TASK_LAST_ARRIVAL, OFF_TASK_RUN_DELAY};
use crate::wait::{self, Span};
use crate::{accounting, delayed, queue, slices, throttle, timeline};

globals!(
    /// Since 6.12: the task sleeps, but is still on the run queue.
    OFF_TASK_DELAYED,
    OFF_TASK_QUEUED,
);

/// `TASK_ON_RQ_MIGRATING` of kernel/sched/sched.h; the value has not changed since 3.18.
const MIGRATING: u8 = 2;

/// The idle task leaves its CPU. `task` is it, or the next one, whose memory the kernel has just used.
#[inline(always)]
pub(crate) fn wake(task: impl Object) {
    let Some(line) = timeline::of_this_cpu() else { return };
    line.asleep = 0;
    if let Some(queue) = queue::of(task)
        && let Some(now) = queue::clock(queue)
    {
        timeline::compare_clocks(line, queue, now);
        timeline::close(line, IDLE, None, now);
    }
}

/// A task leaves its CPU. Its slice is recorded if `slices` is given.
#[inline(always)]
pub(crate) fn leave(task: impl Object, known: &mut SchedTask, slices: Option<&mut Slices>) {
    let Some(line) = timeline::of_this_cpu() else { return };
    let before = slices::before(task, known);
    skip_sleep(task, known);
    let (involuntary, was_held) = (known.involuntary, known.flags & flag::HELD != 0);
    accounting::book(task, known, Some(line));
    divide_noted(line);
    throttle::look(task, known, was_held, known.involuntary != involuntary);
    if let Some(queue) = queue::of(task)
        && let Some(now) = queue::clock(queue)
    {
        timeline::compare_clocks(line, queue, now);
        timeline::close(line, timeline::occupant(task, known), task.u64(&OFF_TASK_LAST_ARRIVAL), now);
        if let Some(slices) = slices {
            slices::note(task, slices, before, line, now);
        }
    }
}

/// Accounts for a task that is still running, because the agent is about to read.
#[inline(always)]
pub(crate) fn flush(task: impl Object, known: &mut SchedTask, slices: Option<&mut Slices>) {
    let Some(line) = timeline::of_this_cpu() else { return };
    let before = slices::before(task, known);
    skip_sleep(task, known);
    let was_held = known.flags & flag::HELD != 0;
    accounting::book(task, known, Some(line));
    divide_noted(line);
    throttle::look_again(task, was_held && known.flags & flag::HELD == 0);
    if let Some(slices) = slices {
        slices::note(task, slices, before, line, 0);
    }
}

/// Skips a sleep that the kernel counts as a wait.
#[inline(always)]
fn skip_sleep(task: impl Object, known: &mut SchedTask) {
    if load_u32(&known.flags) & flag::DELAYED != 0 {
        delayed::skip_sleep(task, known);
    }
    compiler_fence(Ordering::SeqCst);
}

/// Divides the wait that `book` has stored, if there is one.
#[inline(always)]
fn divide_noted(line: &mut Timeline) {
    if wait::is_empty(&line.division) {
        return;
    }
    if let Some(interval) = wait::during_newest(&line.division, line) {
        accounting::blame_one(line, &interval);
        return;
    }
    wait::begin(&mut line.division);
    let this = ptr::from_ref(line);
    accounting::divide(line, this);
}

/// A task without a record leaves its CPU.
#[inline(always)]
pub(crate) fn leave_unknown(task: impl Object) {
    if let Some(now) = queue::of(task).and_then(queue::clock)
        && let Some(line) = timeline::of_this_cpu()
    {
        let since = task.u64(&OFF_TASK_LAST_ARRIVAL);
        timeline::close(line, timeline::occupant_unknown(task), since, now);
    }
}

/// Whether a task that gets another CPU is waiting on a run queue, instead of being woken there.
#[inline(always)]
pub(crate) fn is_moved(task: impl Object) -> bool {
    task.u8(&OFF_TASK_QUEUED) == Some(MIGRATING)
}

/// Whether a task on a run queue sleeps, and stays there only until it has used up its lag. A byte.
#[inline(always)]
fn is_delayed(task: impl Object) -> bool {
    OFF_TASK_DELAYED.load() != ABSENT && task.u8(&OFF_TASK_DELAYED).unwrap_or(0) != 0
}

/// A task migrates to `cpu` while it waits, or while it sleeps and is still on the run queue. The queue that
/// it leaves is locked, and its clock is up to date.
#[inline(always)]
pub(crate) fn depart(task: impl Object, known: &mut SchedTask, cpu: u32) {
    let Some(run_delay) = task.u64(&OFF_TASK_RUN_DELAY) else { return };
    if is_delayed(task) || !known.is_wait_known() {
        // The time that the kernel has counted since the last such migration is a sleep, or begins with one.
        delayed::skip_wait(known, run_delay);
        if is_delayed(task) {
            known.flags |= flag::DELAYED;
        }
        return;
    }
    let waited = run_delay.wrapping_sub(known.run_delay);
    let Some(queue) = queue::of(task) else { return };
    let (Some(to), Some(old)) = (queue::clock(queue), queue::cpu(queue)) else { return };
    let (Some(line), Some(here)) = (timeline::of_cpu(old), timeline::of_this_cpu()) else { return };
    // A task that is older than the agent has no slot before it is first accounted for, and one that was
    // moved may have lost it. All of its wait is divided then.
    let has_no_slot =
        known.slot == slot::UNKNOWN || (known.changes != changes() && accounting::has_freed_slot(known));
    let span = Span { from: to.saturating_sub(waited), to };
    let held = throttle::migrate(task, known, span, cpu);
    if waited == 0 || waited >> 63 != 0 || has_no_slot {
        return;
    }
    wait::note(&mut here.division, known.slot, timeline::victim(known), span, held);
    wait::begin(&mut here.division);
    if let Some(stats) = stats_of(known.slot) {
        // SAFETY: the pointer is into the map's memory and stays valid while the program runs.
        add_u64(unsafe { &mut (*stats).wait_ns }, waited);
    }
    known.run_delay = run_delay;
    known.waited = if known.flags & flag::PIECES == 0 { waited } else { known.waited + waited };
    known.flags |= flag::PIECES;
    let running = queue::running(queue).map_or(0, timeline::occupant_unknown);
    blame_running(here, line, running, to);
    accounting::divide(here, line);
}

/// Charges the running task for its part of the wait. The part before it is still to be divided.
#[inline(always)]
fn blame_running(here: &mut Timeline, line: *const Timeline, running: u64, now: u64) {
    // SAFETY: the pointer is into the map's memory and stays valid while the program runs.
    let (last, so_far, noted) = unsafe { ((*line).last, (*line).interrupted, (*line).interrupted_noted) };
    let since = timeline::end_of(line, last);
    let interrupted_share = timeline::share(so_far.wrapping_sub(noted), now.wrapping_sub(since));
    let piece = wait::take(&mut here.division, since);
    let interval = timeline::run_interval_of(running, now, 0);
    wait::blame(here, &RunInterval { interrupted_share, ..interval }, piece);
}
