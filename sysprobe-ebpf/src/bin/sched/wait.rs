//! Divides a wait over its whole length by what its CPU was occupied with meanwhile. The parts sum to the wait.

use core::ptr;

use sysprobe_common::cgroup::KERNEL;
use sysprobe_common::sched::timeline::{IDLE, SOFTIRQS, STRETCHES};
use sysprobe_common::sched::{Cause, Debt, Debtor, Division, Stretch, Timeline};

use crate::{debts, timeline};

/// A time by a run queue's clock.
#[derive(Clone, Copy)]
pub(crate) struct Span {
    pub(crate) from: u64,
    pub(crate) to: u64,
}

impl Span {
    pub(crate) const NONE: Self = Self { from: 0, to: 0 };
}

/// Where the debts go to.
#[derive(Clone, Copy)]
pub(crate) enum Books {
    /// This CPU's own.
    Own,
    /// The map, for a wait on another CPU.
    Map,
}

/// Begins a division.
#[inline(always)]
pub(crate) fn begin(work: &mut Division, victim: u64, wait: Span, held: Span) {
    *work = Division {
        victim,
        from: wait.from,
        to: wait.to,
        held_from: held.from,
        held_to: held.to,
        piece: 0,
        parts: [0; Cause::ALL.len()],
    };
}

/// Goes back through what happened on the CPU until the wait's beginning. `here` is this CPU's timeline, where the work is done.
#[inline(always)]
pub(crate) fn divide(here: &mut Timeline, line: *const Timeline, books: Books) {
    // SAFETY: the pointer is into the map's memory and stays valid while the program runs.
    let mut number = unsafe { (*line).last };
    for _ in 1..STRETCHES {
        if load(&here.division.to) <= load(&here.division.from) {
            return;
        }
        let stretch = timeline::read_stretch(line, number);
        number = number.wrapping_sub(1);
        let start = timeline::read_stretch(line, number).until;
        skip_unseen(&mut here.division, stretch.until);
        take(&mut here.division, start);
        blame(here, stretch, start, books);
    }
    let rest = load(&here.division.to).saturating_sub(load(&here.division.from));
    add(&mut here.division, Cause::Unknown, rest);
}

/// What is newer than the newest stretch: a run of the program at the switch was missed.
#[inline(always)]
fn skip_unseen(work: &mut Division, until: u64) {
    let (from, to) = (load(&work.from), load(&work.to));
    if until < to {
        let seen = if until > from { until } else { from };
        add(work, Cause::Unknown, to - seen);
        store(&mut work.to, seen);
    }
}

/// Takes the part of the wait that is after `start` to be blamed, but for the time when the victim could not have run.
#[inline(always)]
pub(crate) fn take(work: &mut Division, start: u64) {
    let (from, to) = (load(&work.from), load(&work.to));
    let from = if start > from { start } else { from };
    if from >= to {
        store(&mut work.piece, 0);
        return;
    }
    store(&mut work.to, from);
    store(&mut work.piece, to - from);
    let (held_from, held_to) = (load(&work.held_from), load(&work.held_to));
    if held_to <= from || held_from >= to {
        return;
    }
    let held_from = if held_from > from { held_from } else { from };
    let held_to = if held_to < to { held_to } else { to };
    if held_from < held_to {
        add(work, Cause::Throttled, held_to - held_from);
        store(&mut work.piece, (to - from) - (held_to - held_from));
    }
}

/// Blames the occupant of a stretch for the piece of it that was taken, but for what interrupts had.
#[inline(always)]
pub(crate) fn blame(here: &mut Timeline, stretch: Stretch, start: u64, books: Books) {
    spare_interrupted(&mut here.division, stretch.until.wrapping_sub(start), stretch.interrupted);
    let ns = load(&here.division.piece);
    let victim = load(&here.division.victim);
    if stretch.occupant == victim && victim != KERNEL && victim != 0 {
        add(&mut here.division, Cause::Own, ns);
    } else if let Some(cause) = cause_of(stretch.occupant) {
        add(&mut here.division, cause, ns);
    } else if ns != 0 {
        let of = Debtor { victim, culprit: stretch.occupant };
        match books {
            Books::Own => debts::owe(here, of, ns),
            Books::Map => debts::enter(Debt { of, ns }),
        }
    }
}

/// Of an occupant that is no cgroup.
#[inline(always)]
const fn cause_of(occupant: u64) -> Option<Cause> {
    match occupant {
        IDLE => Some(Cause::Idle),
        KERNEL => Some(Cause::Kernel),
        SOFTIRQS => Some(Cause::Interrupt),
        0 => Some(Cause::Unknown),
        _ => None,
    }
}

/// Of a part of a stretch interrupts had as much as of the whole.
#[inline(always)]
fn spare_interrupted(work: &mut Division, whole: u64, interrupted: u64) {
    if interrupted == 0 {
        return;
    }
    let piece = load(&work.piece);
    // What is longer than four seconds would overflow the product.
    let coarse = if whole >> 32 == 0 { 0 } else { 16 };
    let share = ((interrupted >> coarse) * piece).checked_div(whole >> coarse).unwrap_or(0);
    let share = if share < piece { share } else { piece };
    add(work, Cause::Interrupt, share);
    store(&mut work.piece, piece - share);
}

#[inline(always)]
pub(crate) fn add(work: &mut Division, cause: Cause, ns: u64) {
    let part = &mut work.parts[cause as usize];
    let so_far = load(part);
    store(part, so_far + ns);
}

/// Volatile, for the compiler would keep it in a register.
#[inline(always)]
pub(crate) fn load(place: &u64) -> u64 {
    // SAFETY: a live reference.
    unsafe { ptr::from_ref(place).read_volatile() }
}

#[inline(always)]
fn store(place: &mut u64, value: u64) {
    // SAFETY: as above.
    unsafe { ptr::from_mut(place).write_volatile(value) }
}
