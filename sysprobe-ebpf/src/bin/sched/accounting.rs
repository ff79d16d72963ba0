//! Accounts for a task: adds the difference between its totals now and its last ones to its cgroup's slot.
//! The caller finds the task and keeps its last totals.

use sysprobe_common::sched::timeline::UNPLACED;
use sysprobe_common::sched::{Cause, Pair, RunInterval, SchedLoss, SchedStats, SchedTask, Timeline, flag};
use sysprobe_common::{hist, slot};
use sysprobe_ebpf::branchless::is_below;
use sysprobe_ebpf::cgroup::id_of_task;
use sysprobe_ebpf::kernel::Object;
use sysprobe_ebpf::slots::OFF_TASK_FLAGS;
use sysprobe_ebpf::volatile::{load, store};

use crate::adding::{Add, Alone, Together, add_u64, adds_alone};
use crate::losses::{lose, lose_place};
use crate::slots::{find_slot, slot_of};
use crate::stats::stats_of;
use crate::task::{OFF_TASK_LAST_ARRIVAL, PF_EXITING, Totals, advance, totals};
use crate::wait::Span;
use crate::{interference, throttle, timeline, wait};

/// Adds what the task's totals have grown by to its cgroup. If `line`, this CPU's timeline, is given, the
/// last wait is stored there and divided later: otherwise the verifier would explore the division for every
/// branch of this code.
#[inline(always)]
pub(crate) fn book(task: impl Object, last: &mut SchedTask, line: Option<&mut Timeline>) {
    let Some(now) = totals(task) else {
        lose(SchedLoss::UnreadableTask);
        return;
    };
    let waited = now.run_delay.wrapping_sub(last.run_delay);
    let arrivals = now.arrivals.wrapping_sub(last.arrivals);
    let before = (last.slot, timeline::victim(last));
    let waited_there = keeps_its_slot(task, last, &now) || follow_move(task, last, &now);
    let (slot, victim) = if waited_there { before } else { (last.slot, timeline::victim(last)) };
    charge(last, &now);
    if let Some(line) = line {
        note_wait(task, line, last, Wait { slot, victim, waited, arrivals });
    }
    advance(last, &now);
    if arrivals != 0 {
        last.flags &= flag::OF_TASK;
    }
}

/// Whether the task certainly has the same slot as the last time.
#[inline(always)]
fn keeps_its_slot(task: impl Object, last: &SchedTask, now: &Totals) -> bool {
    !exits(task) && now.css_set == last.css_set && now.changes == last.changes && last.slot != slot::UNKNOWN
}

/// Whether the task is exiting: its cgroup may be gone before it has left its CPU, and the slot with it.
#[inline(always)]
fn exits(task: impl Object) -> bool {
    task.u32(&OFF_TASK_FLAGS).unwrap_or(0) & PF_EXITING != 0
}

/// Looks up the cgroup and the slot of a task that may have moved. If it ran in its old cgroup first, its
/// wait and its run time up to the move are charged there, and the result is true.
#[inline(always)]
fn follow_move(task: impl Object, last: &mut SchedTask, now: &Totals) -> bool {
    let on_cpu = ran_before_the_move(last, now);
    // The note of a move is used up.
    store(&mut last.moved_at, 0);
    let cgroup = id_of_task(task);
    if cgroup != last.cgroup && has_freed_slot(last) {
        last.slot = slot::UNKNOWN;
    }
    let ran_elsewhere = cgroup != last.cgroup && last.slot != slot::UNKNOWN && on_cpu > last.on_cpu;
    if ran_elsewhere {
        let until = Totals { on_cpu, voluntary: last.voluntary, involuntary: last.involuntary, ..*now };
        charge(last, &until);
        advance(last, &until);
    }
    if cgroup != last.cgroup || slot::is_nameless(last.slot) || exits(task) {
        last.slot = find_slot(task, cgroup);
    }
    (last.cgroup, last.css_set, last.changes) = (cgroup, now.css_set, now.changes);
    ran_elsewhere
}

/// Whether the slot of a task that was moved may belong to another cgroup now, because the task's old cgroup
/// was deleted.
#[inline(always)]
pub(crate) fn has_freed_slot(last: &SchedTask) -> bool {
    last.slot >= slot::FIRST_FREE && slot_of(last.cgroup) != last.slot
}

/// The time on CPU up to which a task belongs to its old cgroup, if it has moved since it was last accounted
/// for. If the move is not noted, this program ran between the move and the note, or the task is not the
/// first thread of its process. All of its run time then belongs to the old cgroup.
#[inline(always)]
fn ran_before_the_move(last: &SchedTask, now: &Totals) -> u64 {
    let noted = last.moved_at.wrapping_sub(1);
    if noted >= last.on_cpu && noted <= now.on_cpu { noted } else { now.on_cpu }
}

/// Adds what the totals have grown by to the task's slot.
#[inline(always)]
fn charge(last: &SchedTask, now: &Totals) {
    let wait = now.run_delay.wrapping_sub(last.run_delay);
    let on_cpu = now.on_cpu.wrapping_sub(last.on_cpu);
    if (wait | on_cpu) >> 63 != 0 {
        lose(SchedLoss::BackwardsClock);
    } else if let Some(stats) = stats_of(last.slot) {
        add(stats, last, now, wait, on_cpu);
    }
}

/// A wait that was accounted for as a whole.
struct Wait {
    slot: u32,
    victim: u64,
    waited: u64,
    /// The number of waits in it. It is more than one if a run of the program was missed.
    arrivals: u32,
}

/// Stores a wait, to be divided when all else is done. It ended when the task last got this CPU. If it is
/// several waits, the ends of the earlier ones are not known: all of it is placed beyond the timeline, so it
/// is `unknown`.
#[inline(always)]
fn note_wait(task: impl Object, line: &mut Timeline, last: &SchedTask, wait: Wait) {
    if wait.waited == 0 || wait.waited >> 63 != 0 {
        wait::note(&mut line.division, wait.slot, wait.victim, Span::NONE, [Span::NONE; 2]);
        return;
    }
    let to = task.u64_or_zero(&OFF_TASK_LAST_ARRIVAL) | all_ones_if_several(wait.arrivals);
    let span = Span { from: to.saturating_sub(wait.waited), to };
    wait::note(&mut line.division, wait.slot, wait.victim, span, throttle::held(task, last, span));
}

#[inline(always)]
fn all_ones_if_several(count: u32) -> u64 {
    is_below(count.into(), 2).wrapping_sub(1)
}

/// Charges all of the stored wait to the occupant of one run interval, except for the share of interrupts.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "slots are 32 bits wide")]
pub(crate) fn blame_one(here: &mut Timeline, interval: &RunInterval) {
    here.asleep = 0;
    let (slot, victim) = (load(&here.division.slot), load(&here.division.victim));
    let waited = load(&here.division.to) - load(&here.division.from);
    let interrupted = wait::interrupted(interval, waited);
    let ns = waited - interrupted;
    let cause = if interval.occupant == victim { Cause::Own as u32 } else { interval.cause };
    let mut is_placed = true;
    if cause == Cause::Other as u32 {
        is_placed = interference::charge(here, Pair { victim, culprit: interval.occupant }, ns);
        if here.flushing == 0 {
            interference::send(here);
        }
    }
    if !is_placed {
        lose_place(ns);
    }
    let cause = if is_placed { cause } else { Cause::Unknown as u32 };
    let Some(stats) = stats_of(slot as u32) else { return };
    // SAFETY: the pointer is into the map's memory and stays valid while the program runs.
    let causes = unsafe { &mut (*stats).causes };
    if interrupted != 0 {
        add_u64(&mut causes[Cause::Interrupt as usize], interrupted);
    }
    if let Some(total) = causes.get_mut(cause as usize) {
        add_u64(total, ns);
    }
}

/// Divides the stored wait, and adds its parts to the victim's slot.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "slots are 32 bits wide")]
pub(crate) fn divide(here: &mut Timeline, line: *const Timeline) {
    here.asleep = 0;
    wait::divide(here, line);
    let unplaced = load(&here.division.parts[UNPLACED as usize]);
    if unplaced != 0 {
        lose_place(unplaced);
    }
    // On the agent's own CPU, `flush` may be an ordinary call, which this one interrupts.
    if here.flushing == 0 {
        interference::send(here);
        interference::send(here);
    }
    let Some(stats) = stats_of(load(&here.division.slot) as u32) else { return };
    // SAFETY: the pointer is into the map's memory and stays valid while the program runs.
    let causes = unsafe { &mut (*stats).causes };
    if adds_alone() { add_parts::<Alone>(causes, here) } else { add_parts::<Together>(causes, here) }
}

#[inline(always)]
fn add_parts<A: Add>(causes: &mut [u64; Cause::ALL.len()], here: &Timeline) {
    for (total, part) in causes.iter_mut().zip(&here.division.parts) {
        let ns = load(part);
        if ns != 0 {
            A::u64(total, ns);
        }
    }
}

#[inline(always)]
fn add(stats: *mut SchedStats, last: &SchedTask, now: &Totals, wait: u64, on_cpu: u64) {
    // SAFETY: the pointer is into the map's memory and stays valid while the program runs.
    let stats = unsafe { &mut *stats };
    if adds_alone() {
        add_totals::<Alone>(stats, last, now, wait, on_cpu);
    } else {
        add_totals::<Together>(stats, last, now, wait, on_cpu);
    }
}

#[inline(always)]
fn add_totals<A: Add>(stats: &mut SchedStats, last: &SchedTask, now: &Totals, wait: u64, on_cpu: u64) {
    A::u64(&mut stats.wait_ns, wait);
    A::u64(&mut stats.on_cpu_ns, on_cpu);
    if now.voluntary != last.voluntary {
        A::u32(&mut stats.voluntary, now.voluntary.wrapping_sub(last.voluntary));
    }
    if now.involuntary != last.involuntary {
        A::u32(&mut stats.involuntary, now.involuntary.wrapping_sub(last.involuntary));
    }
    // A flush during the slice has already counted its arrival.
    if now.arrivals != last.arrivals
        && let Some(bucket) = stats.wait.get_mut(hist::bucket_of(last.waited_elsewhere() + wait))
    {
        A::u32(bucket, 1);
    }
}
