//! Decides when there are too many system calls to trace all of them, from their number so far. Pure.
//!
//! A traced call costs 0.2 microseconds, half of which is the kernel's slower entry path, whatever the
//! program does. The cost can therefore only be reduced by tracing no calls. Their rate is unknown meanwhile,
//! so a short trial measures it after a pause.

use std::time::{Duration, Instant};

/// Whether system calls are traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    On,
    Off,
}

/// A rate over a shorter time says little.
const WINDOW: Duration = Duration::from_millis(900);
/// This many windows in a row above the limit are more than a peak.
const PATIENCE: u32 = 2;
const FIRST_PAUSE: Duration = Duration::from_secs(30);
const LONGEST_PAUSE: Duration = Duration::from_secs(600);
/// After this time within the limit, the next pause is the first one again.
const FORGIVEN_AFTER: Duration = Duration::from_secs(600);

pub(super) struct Limit {
    per_second: u64,
    state: State,
    pause: Duration,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// Since when, and the beginning of the last window with the number of calls at that time.
    On {
        since: Instant,
        window: Option<(Instant, u64)>,
        above: u32,
        is_trial: bool,
    },
    Off {
        until: Instant,
    },
}

impl State {
    const fn on(now: Instant, calls: Option<u64>) -> Self {
        let window = match calls {
            Some(calls) => Some((now, calls)),
            None => None,
        };
        Self::On { since: now, window, above: 0, is_trial: calls.is_some() }
    }
}

impl Limit {
    /// For programs that are about to be attached.
    pub(super) fn new(per_second: u64) -> Self {
        Self { per_second, state: State::on(Instant::now(), None), pause: FIRST_PAUSE }
    }

    /// What to do now, given the number of calls counted so far; `None` for no change.
    pub(super) fn look(&mut self, now: Instant, calls: u64) -> Option<Turn> {
        match self.state {
            State::Off { until } if now < until => None,
            State::Off { .. } => {
                self.state = State::on(now, Some(calls));
                Some(Turn::On)
            }
            State::On { .. } => self.watch(now, calls),
        }
    }

    /// The programs could not be attached: tries again after a pause.
    pub(super) fn put_off(&mut self, now: Instant) {
        self.state = State::Off { until: now + self.pause };
    }

    fn watch(&mut self, now: Instant, calls: u64) -> Option<Turn> {
        let State::On { since, window, above, is_trial } = &mut self.state else { return None };
        let Some((begun, before)) = *window else {
            *window = Some((now, calls));
            return None;
        };
        let took = now.duration_since(begun);
        if took < WINDOW {
            return None;
        }
        *window = Some((now, calls));
        let rate = calls.wrapping_sub(before) as f64 / took.as_secs_f64();
        if rate <= self.per_second as f64 {
            (*above, *is_trial) = (0, false);
            if now.duration_since(*since) >= FORGIVEN_AFTER {
                self.pause = FIRST_PAUSE;
            }
            return None;
        }
        *above += 1;
        if *above < PATIENCE && !*is_trial {
            return None;
        }
        self.state = State::Off { until: now + self.pause };
        self.pause = (2 * self.pause).min(LONGEST_PAUSE);
        Some(Turn::Off)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// One second for each of these call rates; returns the turns by second. No call is counted while the
    /// programs are detached.
    fn turns(limit: &mut Limit, rates: impl IntoIterator<Item = u64>) -> Vec<(usize, Turn)> {
        let (mut now, mut calls, mut is_on) = (Instant::now(), 0, true);
        assert_eq!(limit.look(now, calls), None);
        let mut turns = Vec::new();
        for (second, rate) in rates.into_iter().enumerate() {
            now += SECOND;
            calls += if is_on { rate } else { 0 };
            if let Some(turn) = limit.look(now, calls) {
                is_on = turn == Turn::On;
                turns.push((second, turn));
            }
        }
        turns
    }

    #[test]
    fn a_peak_of_a_second_changes_nothing() {
        assert_eq!(turns(&mut Limit::new(1000), [1000, 5000, 1000, 1001, 999]), []);
    }

    #[test]
    fn too_many_calls_are_not_looked_at_but_for_trials_that_become_rarer() {
        let turns = turns(&mut Limit::new(1000), std::iter::repeat_n(1001, 100));
        let expected = [(1, Turn::Off), (31, Turn::On), (32, Turn::Off), (92, Turn::On), (93, Turn::Off)];
        assert_eq!(turns, expected);
    }

    #[test]
    fn calls_are_looked_at_again_when_there_are_fewer() {
        let rates = std::iter::repeat_n(2000, 10).chain(std::iter::repeat_n(10, 700));
        let mut limit = Limit::new(1000);
        assert_eq!(turns(&mut limit, rates), [(1, Turn::Off), (31, Turn::On)]);
        assert_eq!(limit.pause, FIRST_PAUSE, "forgiven");
    }

    #[test]
    fn programs_that_could_not_be_attached_are_attached_after_another_pause() {
        let (mut limit, start) = (Limit::new(1000), Instant::now());
        limit.put_off(start);
        assert_eq!(limit.look(start + FIRST_PAUSE / 2, 0), None);
        assert_eq!(limit.look(start + FIRST_PAUSE, 0), Some(Turn::On));
        limit.put_off(start + FIRST_PAUSE);
        assert_eq!(limit.look(start + FIRST_PAUSE + SECOND, 0), None, "not at each look");
        assert_eq!(limit.look(start + 2 * FIRST_PAUSE, 0), Some(Turn::On));
    }

    #[test]
    fn trials_are_never_rarer_than_every_ten_minutes() {
        let mut limit = Limit::new(1000);
        let turns = turns(&mut limit, std::iter::repeat_n(1001, 10_000));
        let on: Vec<_> = turns.iter().filter(|(_, turn)| *turn == Turn::On).map(|(at, _)| at).collect();
        assert_eq!(limit.pause, LONGEST_PAUSE);
        assert_eq!(on[on.len() - 1] - on[on.len() - 2], 601);
    }
}
