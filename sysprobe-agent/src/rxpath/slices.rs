//! When packets are followed, where a small share is: a second of eight, at a moment that is drawn anew for
//! each eight. Not to look costs nothing, while to look whether a packet is one of few costs as much as most
//! programs do. A pure decision.
//!
//! It is the device that decides here, too: what has been noted there is followed to its reader for as long as
//! it takes, but for what still waits when the next slice begins and the readers have not been watched since.

use std::time::{Duration, Instant};

use sysprobe_common::rxpath::Phase;

/// A part of the time: one of 2^n.
pub(super) const SLICE_BITS: u32 = 3;
/// Of smaller shares than one of 2^n, a part is one of the time.
pub(super) const SLICED_ABOVE: u32 = 4;
/// The engine ticks once a second.
const SLICE: Duration = Duration::from_millis(900);
/// What has been noted needs so long to its socket at most, but for what waits for a lost segment.
const ON_THE_WAY: Duration = Duration::from_millis(900);
/// Of 2^64, as a part of the golden ratio: multiples of it are spread evenly.
const GOLDEN: u32 = 0x9e37_79b9;

#[derive(Debug)]
pub(super) struct Slices {
    phase: Phase,
    /// Where there are slices.
    period: Option<Period>,
    /// How many slices have ended.
    ended: u32,
}

#[derive(Clone, Copy, Debug)]
struct Period {
    begun: Instant,
    /// When its phase began.
    since: Instant,
    /// When packets are noted next.
    next: Instant,
}

impl Slices {
    pub(super) const fn new() -> Self {
        Self { phase: Phase::Noting, period: None, ended: 0 }
    }

    /// What to do now. `waits` says whether something that has been noted has not been read.
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
    /// The next period begins when this one has been 2^n times as long as its slice was.
    fn end_slice(&mut self, now: Instant, took: Duration, slices: u32) {
        let rest = took * ((1 << SLICE_BITS) - 1);
        // A machine that stood still for longer begins anew.
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

    /// The phases of so many ticks. `waits` says whether something does, by the tick.
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
        // A second that is cut short by the next slice is none of theirs.
        let reading = count(&phases, Phase::Reading);
        assert!((900..=1000).contains(&reading), "{reading}");
        assert_eq!(phases[..3], [Phase::Noting, Phase::Reading, Phase::Paused]);
    }

    /// Else what is done every eight seconds would be seen always or never.
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
