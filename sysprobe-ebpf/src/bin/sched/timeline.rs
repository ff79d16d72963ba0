//! The timeline of each CPU: a ring of run intervals, to which each switch adds the one that ends with it.
//! Written by its own CPU only, with the run queue locked.

use aya_ebpf::bindings::BPF_F_MMAPABLE;
use aya_ebpf::btf_maps::Array;
use aya_ebpf::helpers::bpf_get_smp_processor_id;
use aya_ebpf::macros::btf_map;
use sysprobe_common::cgroup::{KERNEL, ROOT_ID};
use sysprobe_common::sched::timeline::{IDLE, RUN_INTERVALS, SOFTIRQS, UNKNOWN_VICTIM, WHOLE_SHARE};
use sysprobe_common::sched::{Cause, RunInterval, SchedTask, Timeline, flag};
use sysprobe_common::slot;
use sysprobe_ebpf::cgroup::id_of_task;
use sysprobe_ebpf::clock::now;
use sysprobe_ebpf::globals;
use sysprobe_ebpf::kernel::Object;
use sysprobe_ebpf::slots::is_kernel_thread;

use crate::task::OFF_TASK_PID;

globals!(OFF_TASK_COMM);

/// The first letters of `ksoftirqd/0`, as a number.
const SOFTIRQ_DAEMON: u64 = u64::from_le_bytes(*b"ksoftirq");
/// The name of new kernel threads before 6.4.
const THREAD_DAEMON: u64 = u64::from_le_bytes(*b"kthreadd");

/// One for each possible CPU. Sized by the agent.
#[btf_map]
static SCHED_TIMELINES: Array<Timeline, 1, { BPF_F_MMAPABLE as usize }> = Array::new();

#[inline(always)]
pub(crate) fn of_cpu(cpu: u32) -> Option<*const Timeline> {
    SCHED_TIMELINES.get_ptr_mut(cpu).map(<*mut Timeline>::cast_const)
}

#[inline(always)]
pub(crate) fn of_this_cpu<'a>() -> Option<&'a mut Timeline> {
    // SAFETY: the helper only returns a number.
    let timeline = SCHED_TIMELINES.get_ptr_mut(unsafe { bpf_get_smp_processor_id() })?;
    // SAFETY: the pointer is into the map's memory and stays valid while the program runs.
    Some(unsafe { &mut *timeline })
}

/// The run interval with this number. The numbers are consecutive, and old intervals are overwritten.
#[inline(always)]
fn run_interval(timeline: &mut Timeline, number: u32) -> &mut RunInterval {
    // SAFETY: the place is within the ring.
    unsafe { timeline.run_intervals.get_unchecked_mut(number as usize & (RUN_INTERVALS - 1)) }
}

/// The same for the timeline of this CPU, or of another one whose run queue is locked.
#[inline(always)]
pub(crate) fn read_run_interval(timeline: *const Timeline, number: u32) -> RunInterval {
    // SAFETY: the pointer is into the map's memory and stays valid while the program runs; the place is
    // within the ring.
    unsafe {
        let ring = (&raw const (*timeline).run_intervals).cast::<RunInterval>();
        ring.add(number as usize & (RUN_INTERVALS - 1)).read()
    }
}

/// When the run interval with this number ended, and the next one began.
#[inline(always)]
pub(crate) fn end_of(timeline: *const Timeline, number: u32) -> u64 {
    read_run_interval(timeline, number).until
}

/// The time between two comparisons of the clocks, in nanoseconds.
const COMPARE_EVERY: u64 = 10_000_000;
/// After this long without a comparison, because the CPU was idle, the old difference is ignored.
const FORGET_AFTER: u64 = 1_000_000_000;

/// How far the clocks may drift apart between two comparisons: a ten-thousandth.
const DRIFT: u64 = COMPARE_EVERY / 10_000;

/// Compares the clock of this CPU's run queue with `CLOCK_MONOTONIC`. It was set slightly earlier, and
/// sometimes much earlier, so the shortest distance counts.
#[inline(always)]
#[expect(clippy::cast_possible_wrap, reason = "a difference may be below 0")]
pub(crate) fn compare_clocks(timeline: &mut Timeline, queue: impl Object, clock: u64) {
    let since = clock.wrapping_sub(timeline.clock_compared);
    if since <= COMPARE_EVERY {
        return;
    }
    let offset = now().wrapping_sub(clock);
    let at_most = timeline.clock_offset.wrapping_add(DRIFT);
    let is_longer = since < FORGET_AFTER && (at_most.wrapping_sub(offset) as i64) < 0;
    timeline.clock_offset = if is_longer { at_most } else { offset };
    timeline.clock_compared = clock;
    timeline.run_queue = queue.address();
}

/// Converts a timestamp of the run queue's clock to `CLOCK_MONOTONIC`.
#[inline(always)]
pub(crate) const fn monotonic(timeline: &Timeline, clock: u64) -> u64 {
    clock.wrapping_add(timeline.clock_offset)
}

/// The running task leaves its CPU now. `since` is when it arrived, if that is known.
#[inline(always)]
pub(crate) fn close(timeline: &mut Timeline, occupant: u64, since: Option<u64>, now: u64) {
    timeline.asleep = 0;
    let last = timeline.last;
    let newest = *run_interval(timeline, last);
    let interrupted = take_interrupted(timeline, now.wrapping_sub(newest.until));
    // A run of this program was missed, so the occupant before this one is not known.
    let missed = since.filter(|since| *since > newest.until);
    if newest.occupant == occupant && missed.is_none() {
        let start = run_interval(timeline, last.wrapping_sub(1)).until;
        let interrupted = newest.interrupted + interrupted;
        write(timeline, last, RunInterval { until: now, interrupted, ..newest }, start);
        return;
    }
    let mut next = last.wrapping_add(1);
    if let Some(since) = missed {
        write(timeline, next, run_interval_of(0, since, 0), newest.until);
        next = next.wrapping_add(1);
    }
    let start = missed.unwrap_or(newest.until);
    write(timeline, next, run_interval_of(occupant, now, interrupted), start);
    timeline.last = next;
}

/// The time of interrupts that is in no run interval yet, at most the whole interval. A measured softirq
/// stands for several, which may lie before or after it, so the excess goes to the next interval.
#[inline(always)]
const fn take_interrupted(timeline: &mut Timeline, at_most: u64) -> u64 {
    let new = timeline.interrupted.wrapping_sub(timeline.interrupted_noted);
    let taken = if new < at_most { new } else { at_most };
    timeline.interrupted_noted = timeline.interrupted_noted.wrapping_add(taken);
    taken
}

#[inline(always)]
pub(crate) const fn run_interval_of(occupant: u64, until: u64, interrupted: u64) -> RunInterval {
    let cause = Cause::of_occupant(occupant) as u32;
    RunInterval { until, occupant, interrupted, interrupted_share: 0, cause }
}

#[inline(always)]
fn write(timeline: &mut Timeline, number: u32, new: RunInterval, start: u64) {
    let interrupted_share = share(new.interrupted, new.until.wrapping_sub(start));
    *run_interval(timeline, number) = RunInterval { interrupted_share, ..new };
}

/// The share of a run interval that interrupts took, in units of 2^-16.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "it is not more than the whole")]
pub(crate) fn share(interrupted: u64, whole: u64) -> u32 {
    if interrupted == 0 {
        return 0;
    }
    let share = (interrupted << 16).checked_div(whole).unwrap_or(0);
    if share < u64::from(WHOLE_SHARE) { share as u32 } else { WHOLE_SHARE }
}

/// The occupant of a CPU while this task runs, from the task's record.
#[inline(always)]
pub(crate) fn occupant(task: impl Object, known: &mut SchedTask) -> u64 {
    if known.flags & flag::UNNAMED != 0 {
        known.flags = (known.flags & !flag::OF_TASK) | flags_of_new(task);
    }
    if known.flags & flag::SOFTIRQS != 0 {
        SOFTIRQS
    } else if known.slot == slot::KERNEL {
        KERNEL
    } else {
        known.cgroup
    }
}

/// The victim while this task waits: the cgroup that its waits are charged to.
#[inline(always)]
pub(crate) const fn victim(known: &SchedTask) -> u64 {
    match known.slot {
        slot::KERNEL => KERNEL,
        slot if slot::is_nameless(slot) => UNKNOWN_VICTIM,
        _ => known.cgroup,
    }
}

/// The occupant of a CPU while this task runs, without a record of the task. For rare cases.
#[inline(always)]
pub(crate) fn occupant_unknown(task: impl Object) -> u64 {
    if task.u32(&OFF_TASK_PID).unwrap_or(0) == 0 {
        return IDLE;
    }
    let cgroup = id_of_task(task);
    if cgroup == ROOT_ID && is_kernel_thread(task) {
        if does_softirqs(task) { SOFTIRQS } else { KERNEL }
    } else {
        cgroup
    }
}

/// The flags of a new task.
#[inline(always)]
pub(crate) fn flags_of_new(task: impl Object) -> u32 {
    if !is_kernel_thread(task) {
        return 0;
    }
    match task.u64_or_zero(&OFF_TASK_COMM) {
        SOFTIRQ_DAEMON => flag::SOFTIRQS,
        THREAD_DAEMON => flag::UNNAMED,
        _ => 0,
    }
}

#[inline(always)]
fn does_softirqs(task: impl Object) -> bool {
    task.u64_or_zero(&OFF_TASK_COMM) == SOFTIRQ_DAEMON
}

#[inline(always)]
pub(crate) fn softirq_begins() {
    if let Some(timeline) = of_this_cpu() {
        timeline.begin_softirq(now);
    }
}

#[inline(always)]
pub(crate) fn softirq_ends() {
    if let Some(timeline) = of_this_cpu() {
        timeline.end_softirq(now);
    }
}

#[inline(always)]
pub(crate) fn interrupt_begins() {
    if let Some(timeline) = of_this_cpu() {
        timeline.begin_interrupt(now);
    }
}

#[inline(always)]
pub(crate) fn interrupt_ends() {
    if let Some(timeline) = of_this_cpu() {
        timeline.end_interrupt(now);
    }
}
