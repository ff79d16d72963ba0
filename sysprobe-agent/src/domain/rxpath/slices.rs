//! Time slices for small shares: packets are noted during one second of eight, at a position that changes
//! with every period. Detached programs cost nothing, while checking whether to follow a packet costs as much
//! as most programs do. A pure decision.
//!
//! Only the device's programs decide: data noted there is followed to its reader for as long as that takes,
//! unless it still waits when the next slice begins and the readers' programs were detached in between.

use std::time::{Duration, Instant};

use sysprobe_common::rxpath::Phase;

/// A slice is one of 2^n parts of the time.
pub(super) const SLICE_BITS: u32 = 3;
/// Shares smaller than one of 2^n are taken in slices.
pub(super) const SLICED_ABOVE: u32 = 2;
/// The engine ticks once a second.
const SLICE: Duration = Duration::from_millis(900);
/// Noted packets reach their sockets within this time, unless they wait for a lost segment.
const ON_THE_WAY: Duration = Duration::from_millis(900);
/// 2^32 divided by the golden ratio: its multiples are spread evenly.
const GOLDEN: u32 = 0x9e37_79b9;

#[derive(Debug)]
pub(super) struct Slices {
    phase: Phase,
    /// Only while slices are used.
    period: Option<Period>,
    /// The number of slices that have ended.
    ended: u32,
}

#[derive(Clone, Copy, Debug)]
struct Period {
    begun: Instant,
    /// When the current phase began.
    since: Instant,
    /// When packets are next noted.
    next: Instant,
}

impl Slices {
    pub(super) const fn new() -> Self {
        Self { phase: Phase::Noting, period: None, ended: 0 }
    }

    /// The phase from now on. `waits` returns whether noted data has not been read yet.
    pub(super) fn look(&mut self, now: Instant, bits: u32, waits: impl FnOnce() -> bool) -> Phase {
        if bits <= SLICED_ABOVE {
            (self.phase, self.period) = (Phase::Noting, None);
            return self.phase;
        }
        let period = self.period.get_or_insert(Period { begun: now, since: now, next: now });
        let passed = now.saturating_duration_since(period.since);
        match self.phase {
            Phase::Noting if passed >= SLICE => {
                self.ended = self.ended.wrapping_add(1);
                period.end_slice(now, passed, self.ended);
                self.phase = Phase::Reading;
            }
            Phase::Reading | Phase::Paused if now >= period.next => {
                period.since = now;
                self.phase = Phase::Noting;
            }
            Phase::Reading if passed >= ON_THE_WAY && !waits() => self.phase = Phase::Paused,
            _ => {}
        }
        self.phase
    }
}

impl Period {
    /// Places the next slice: a period is 2^n times as long as its slice was.
    fn end_slice(&mut self, now: Instant, took: Duration, slices: u32) {
        let rest = took * ((1 << SLICE_BITS) - 1);
        // After a longer standstill of the machine, the schedule restarts.
        let ends = self.begun + took + rest;
        self.begun = if ends < now { now } else { ends };
        let part = f64::from(slices.wrapping_mul(GOLDEN)) / 2_f64.powi(32);
        self.next = self.begun + rest.mul_f64(part);
        self.since = now;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const TICK: Duration = Duration::from_secs(1);

    /// The phases of `ticks` ticks. `waits` tells whether noted data waits at a tick.
    fn phases(slices: &mut Slices, ticks: u32, bits: u32, waits: impl Fn(u32) -> bool) -> Vec<Phase> {
        let begun = Instant::now();
        (0..ticks).map(|tick| slices.look(begun + tick * TICK, bits, || waits(tick))).collect()
    }

    fn count(phases: &[Phase], phase: Phase) -> usize {
        phases.iter().filter(|one| **one == phase).count()
    }

    #[test]
    fn a_large_share_is_followed_all_the_time() {
        assert_eq!(phases(&mut Slices::new(), 20, SLICED_ABOVE, |_| false), [Phase::Noting; 20]);
    }

    #[test]
    fn of_a_small_share_one_second_of_eight_is_looked_at_and_readers_a_little_longer() {
        let phases = phases(&mut Slices::new(), 8000, SLICED_ABOVE + 1, |_| false);
        assert!((998..=1002).contains(&count(&phases, Phase::Noting)), "{}", count(&phases, Phase::Noting));
        // A second that the next slice cuts short does not count for readers.
        let reading = count(&phases, Phase::Reading);
        assert!((900..=1000).contains(&reading), "{reading}");
        assert_eq!(phases[..3], [Phase::Noting, Phase::Reading, Phase::Paused]);
    }

    /// Otherwise events that recur every eight seconds would always or never be seen.
    #[test]
    fn slices_follow_each_other_after_different_times() {
        let phases = phases(&mut Slices::new(), 8000, SLICED_ABOVE + 1, |_| false);
        let noting = (0..phases.len()).filter(|tick| phases[*tick] == Phase::Noting);
        let remainders: HashSet<_> = noting.map(|tick| tick % 8).collect();
        assert!(remainders.len() >= 7, "{remainders:?}");
    }

    #[test]
    fn readers_are_watched_while_something_waits_for_them() {
        let phases = phases(&mut Slices::new(), 100, SLICED_ABOVE + 1, |_| true);
        assert_eq!(count(&phases, Phase::Paused), 0);
        assert!(count(&phases, Phase::Reading) > 80);
    }

    #[test]
    fn who_wants_all_has_it_at_once() {
        let mut slices = Slices::new();
        let begun = Instant::now();
        for (tick, expected) in (0..).zip([Phase::Noting, Phase::Reading, Phase::Paused]) {
            assert_eq!(slices.look(begun + tick * TICK, 6, || false), expected);
        }
        assert_eq!(slices.look(begun + 3 * TICK, 0, || false), Phase::Noting);
        assert_eq!(slices.look(begun + 4 * TICK, 6, || false), Phase::Noting);
        assert_eq!(slices.look(begun + 5 * TICK, 6, || false), Phase::Reading);
    }
}
