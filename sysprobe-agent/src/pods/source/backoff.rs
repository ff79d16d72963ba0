//! How long to wait before trying again, with jitter, so that ten thousand agents do not try at the same
//! moment.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// The first pause, before jitter.
const SHORTEST: Duration = Duration::from_secs(1);
/// On average, a server that comes back is found again within this time.
const LONGEST: Duration = Duration::from_secs(30);
/// A source that ran for so long had recovered.
const RECOVERED: Duration = Duration::from_secs(60);
/// The longest pause that a server can ask for, before jitter.
const LONGEST_ASKED_FOR: Duration = Duration::from_secs(300);

/// Pauses that double, each between half and one and a half times its length.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// The pause after another failure, if the source ran for `ran`.
    pub(super) fn next(&mut self, ran: Duration) -> Duration {
        if ran >= RECOVERED {
            self.failures = 0;
        }
        let doubled = SHORTEST.saturating_mul(1 << self.failures.min(5));
        self.failures = self.failures.saturating_add(1);
        doubled.min(LONGEST).mul_f64(0.5 + random())
    }

    /// The pause if the other side asks for one: at least that long, up to a limit, and jitter on top.
    pub(super) fn next_after(&mut self, asked_for: Duration) -> Duration {
        self.failures = self.failures.saturating_add(1);
        asked_for.clamp(SHORTEST, LONGEST_ASKED_FOR).mul_f64(1.0 + random() / 2.0)
    }

    /// True for the first, second, fourth, eighth... failure in a row.
    pub(super) const fn is_worth_a_line(&self) -> bool {
        self.failures.is_power_of_two()
    }
}

/// A random part of a duration.
pub(super) fn random_part(whole: Duration) -> Duration {
    whole.mul_f64(random())
}

/// From 0 to 1. The standard library's hasher has random keys, which differ for each instance.
fn random() -> f64 {
    let bits = RandomState::new().hash_one(0) >> 11;
    bits as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn within(pause: Duration, seconds: std::ops::Range<f64>) {
        assert!(seconds.contains(&pause.as_secs_f64()), "{pause:?} is not within {seconds:?}");
    }

    #[test]
    fn pauses_double_up_to_a_limit_and_start_anew_after_a_good_time() {
        let mut backoff = Backoff::default();
        for seconds in [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0] {
            within(backoff.next(Duration::ZERO), seconds * 0.5..seconds * 1.5);
        }
        within(backoff.next(RECOVERED), 0.5..1.5);
    }

    #[test]
    fn a_pause_that_is_asked_for_is_kept_within_reason() {
        let mut backoff = Backoff::default();
        within(backoff.next_after(Duration::from_secs(10)), 10.0..15.0);
        within(backoff.next_after(Duration::ZERO), 1.0..1.5);
        within(backoff.next_after(Duration::from_secs(86_400)), 300.0..450.0);
    }

    #[test]
    fn repeated_failures_are_logged_less_and_less() {
        let mut backoff = Backoff::default();
        let lines = (0..64).filter(|_| {
            backoff.next(Duration::ZERO);
            backoff.is_worth_a_line()
        });
        assert_eq!(lines.count(), 7);
    }

    #[test]
    fn chance_is_spread_over_the_whole_range() {
        let mut tenths = [0; 10];
        for _ in 0..10_000 {
            let tenth = random_part(Duration::from_secs(10)).as_secs();
            tenths[usize::try_from(tenth).expect("below 10")] += 1;
        }
        assert!(tenths.iter().all(|count| (800..1200).contains(count)), "{tenths:?}");
    }
}
