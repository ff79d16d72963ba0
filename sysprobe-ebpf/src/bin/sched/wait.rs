//! Divides a wait over its whole length along the timeline of its CPU. The parts sum to the wait.
//!
//! The verifier spends most of its time on the loop over run intervals. So the loop has few branches, and all
//! data that it changes lies in a map: the verifier tracks registers and the stack, and would explore every
//! branch for each interval.

use sysprobe_common::sched::timeline::{PARTS, RUN_INTERVALS, UNPLACED};
use sysprobe_common::sched::{Cause, Division, Pair, RunInterval, Timeline};
use sysprobe_ebpf::branchless::{excess, is_below};
use sysprobe_ebpf::volatile::{load, store};

use crate::{interference, timeline};

/// A time span by a run queue's clock.
#[derive(Clone, Copy)]
pub(crate) struct Span {
    pub(crate) from: u64,
    pub(crate) to: u64,
}

impl Span {
    pub(crate) const NONE: Self = Self { from: 0, to: 0 };

    #[inline(always)]
    const fn is_empty(self) -> bool {
        self.from >= self.to
    }
}

/// Stores a wait to be divided; an empty one if there was none. `held` has the throttles of the victim's
/// group, the later one first: the victim could not have run then, even on an idle CPU.
#[inline(always)]
pub(crate) fn note(work: &mut Division, slot: u32, victim: u64, wait: Span, held: [Span; 2]) {
    store(&mut work.slot, slot.into());
    store(&mut work.victim, victim);
    store(&mut work.from, wait.from);
    store(&mut work.to, wait.to);
    store(&mut work.earlier_from, held[0].from);
    store(&mut work.earlier_to, held[0].to);
    store(&mut work.earliest_from, held[1].from);
    store(&mut work.earliest_to, held[1].to);
}

/// Whether there is nothing to divide.
#[inline(always)]
pub(crate) fn is_empty(work: &Division) -> bool {
    load(&work.from) >= load(&work.to)
}

/// The newest run interval, if the whole wait lies within it, as with most waits, and there was no throttle.
#[inline(always)]
pub(crate) fn during_newest(work: &Division, line: &Timeline) -> Option<RunInterval> {
    let newest = timeline::read_run_interval(line, line.last);
    let since = timeline::end_of(line, line.last.wrapping_sub(1));
    let (from, to) = (load(&work.from), load(&work.to));
    if is_held(work) || from < since || to > newest.until { None } else { Some(newest) }
}

/// Whether the stored wait may have been a throttle in part.
#[inline(always)]
fn is_held(work: &Division) -> bool {
    load(&work.earlier_to) | load(&work.earliest_to) != 0
}

/// Begins the division of the stored wait.
#[inline(always)]
pub(crate) fn begin(work: &mut Division) {
    for part in &mut work.parts {
        store(part, 0);
    }
    if !is_held(work) {
        return;
    }
    let wait = Span { from: load(&work.from), to: load(&work.to) };
    let held = [
        Span { from: load(&work.earlier_from), to: load(&work.earlier_to) },
        Span { from: load(&work.earliest_from), to: load(&work.earliest_to) },
    ];
    let (mut later, rest) = split(work, wait, held[0]);
    let (mut earlier, mut earliest) = split(work, rest, held[1]);
    if earlier.is_empty() {
        (earlier, earliest) = (earliest, Span::NONE);
    }
    if later.is_empty() {
        (later, earlier, earliest) = (earlier, earliest, Span::NONE);
    }
    store(&mut work.from, later.from);
    store(&mut work.to, later.to);
    store(&mut work.earlier_from, earlier.from);
    store(&mut work.earlier_to, earlier.to);
    store(&mut work.earliest_from, earliest.from);
    store(&mut work.earliest_to, earliest.to);
}

/// Counts a throttle, and returns the parts of the wait after it and before it. Without one, all is before
/// it.
#[inline(always)]
fn split(work: &mut Division, wait: Span, held: Span) -> (Span, Span) {
    let from = if held.from > wait.from { held.from } else { wait.from };
    let to = if held.to < wait.to { held.to } else { wait.to };
    if from >= to {
        return (Span::NONE, wait);
    }
    add(work, Cause::Throttled as u32, to - from);
    (Span { from: to, to: wait.to }, Span { from: wait.from, to: from })
}

/// Goes back along the timeline `line` to the wait's beginning. `here` is this CPU's timeline, which holds
/// the division.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "it is 0 or 1")]
pub(crate) fn divide(here: &mut Timeline, line: *const Timeline) {
    // SAFETY: the pointer is into the map's memory and stays valid while the program runs.
    let mut number = unsafe { (*line).last };
    skip_unseen(&mut here.division, timeline::end_of(line, number));
    for _ in 1..RUN_INTERVALS {
        if is_done(&mut here.division) {
            return;
        }
        let start = timeline::end_of(line, number.wrapping_sub(1));
        let piece = take(&mut here.division, start);
        let interval = timeline::read_run_interval(line, number);
        // The part before a throttle may lie in the same run interval.
        number = number.wrapping_sub(is_below(load(&here.division.to), start + 1) as u32);
        blame(here, &interval, piece);
    }
    let rest = left(&here.division);
    add(&mut here.division, Cause::Unknown as u32, rest);
}

/// How much is still to be divided.
#[inline(always)]
fn left(work: &Division) -> u64 {
    let now = load(&work.to) - load(&work.from);
    let earlier = load(&work.earlier_to) - load(&work.earlier_from);
    now + earlier + (load(&work.earliest_to) - load(&work.earliest_from))
}

/// Charges the part after the newest run interval to `unknown`: a run of the program at the switch was
/// missed.
#[inline(always)]
fn skip_unseen(work: &mut Division, until: u64) {
    let (from, to) = (load(&work.from), load(&work.to));
    let seen = if until > from { until } else { from };
    if seen < to {
        add(work, Cause::Unknown as u32, to - seen);
        store(&mut work.to, seen);
    }
}

/// Whether nothing is left to be divided. After one part is done, the part before a throttle comes next.
#[inline(always)]
fn is_done(work: &mut Division) -> bool {
    if load(&work.to) > load(&work.from) {
        return false;
    }
    let (from, to) = (load(&work.earlier_from), load(&work.earlier_to));
    store(&mut work.from, from);
    store(&mut work.to, to);
    let (before_from, before_to) = (load(&work.earliest_from), load(&work.earliest_to));
    store(&mut work.earlier_from, before_from);
    store(&mut work.earlier_to, before_to);
    store(&mut work.earliest_from, 0);
    store(&mut work.earliest_to, 0);
    (to - from) | (before_to - before_from) == 0
}

/// Takes the part of the wait that is after `start`; the rest is still to be divided.
#[inline(always)]
pub(crate) fn take(work: &mut Division, start: u64) -> u64 {
    let (from, to) = (load(&work.from), load(&work.to));
    let piece = excess(to, from + excess(start, from));
    store(&mut work.to, to - piece);
    piece
}

/// Charges a piece of a run interval to its occupant, except for the share of interrupts, which is the same
/// as in the whole interval.
#[inline(always)]
pub(crate) fn blame(here: &mut Timeline, interval: &RunInterval, piece: u64) {
    let interrupted = interrupted(interval, piece);
    add(&mut here.division, Cause::Interrupt as u32, interrupted);
    let ns = piece - interrupted;
    let victim = load(&here.division.victim);
    if interval.occupant == victim {
        add(&mut here.division, Cause::Own as u32, ns);
        return;
    }
    add(&mut here.division, interval.cause, ns);
    if interval.cause == Cause::Other as u32 {
        let of = Pair { victim, culprit: interval.occupant };
        if !interference::charge(here, of, ns) {
            let work = &mut here.division;
            let other = load(&work.parts[Cause::Other as usize]);
            store(&mut work.parts[Cause::Other as usize], other - ns);
            add(work, Cause::Unknown as u32, ns);
            add(work, UNPLACED, ns);
        }
    }
}

/// The time of interrupts in a piece of a run interval.
#[inline(always)]
pub(crate) fn interrupted(interval: &RunInterval, piece: u64) -> u64 {
    ((piece >> 8) * u64::from(interval.interrupted_share)) >> 8
}

#[inline(always)]
fn add(work: &mut Division, cause: u32, ns: u64) {
    // SAFETY: the place is within the array.
    let part = unsafe { work.parts.get_unchecked_mut(cause as usize & (PARTS - 1)) };
    let so_far = load(part);
    store(part, so_far + ns);
}
