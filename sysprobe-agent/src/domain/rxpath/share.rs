//! The share of packets to follow, which depends on the packet rate and keeps the cost low. A pure decision.

use std::time::{Duration, Instant};

/// Following a packet costs 0.7 us, so this is 0.14 % of each CPU's time.
const FOLLOWED_PER_CPU: u64 = 2000;
/// The smallest share is one of 2^6 packets.
const MOST_BITS: u32 = 6;
/// A rate over a shorter time says little.
const WINDOW: Duration = Duration::from_millis(900);
/// The share grows only after the rate was low for this long.
const QUIET_FOR: Duration = Duration::from_secs(10);

/// Decides about once a second.
#[derive(Debug)]
pub(super) struct Share {
    /// The configured share, at any rate.
    fixed: Option<u32>,
    most_per_second: u64,
    bits: u32,
    window: Option<(Instant, u64)>,
    /// Since when a larger share would be affordable.
    quiet_since: Option<Instant>,
    /// Until when all packets are followed, because a reader asked for it.
    all_until: Option<Instant>,
}

impl Share {
    /// One packet of `one_in`; 0 lets the rate decide.
    pub(super) fn new(one_in: u32, cpus: u64) -> Self {
        let fixed = one_in.checked_ilog2();
        Self {
            fixed,
            most_per_second: FOLLOWED_PER_CPU * cpus.max(1),
            bits: fixed.unwrap_or(0),
            window: None,
            quiet_since: None,
            all_until: None,
        }
    }

    /// Follows all packets for a while.
    pub(super) fn follow_all(&mut self, until: Instant) {
        self.all_until = self.all_until.max(Some(until));
    }

    /// One packet of 2^n is to be followed. `received` returns the number of packets received so far.
    pub(super) fn bits(&mut self, now: Instant, received: impl FnOnce() -> u64) -> u32 {
        if self.fixed.is_none() {
            self.look(now, received);
        }
        if self.all_until.is_some_and(|until| now < until) { 0 } else { self.bits }
    }

    fn look(&mut self, now: Instant, received: impl FnOnce() -> u64) {
        if self.window.is_some_and(|(begun, _)| now.duration_since(begun) < WINDOW) {
            return;
        }
        let received = received();
        let Some((begun, before)) = self.window.replace((now, received)) else { return };
        let took = now.duration_since(begun);
        let millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX).max(1);
        let rate = received.saturating_sub(before).saturating_mul(1000) / millis;
        let bits = rate.div_ceil(self.most_per_second).next_power_of_two().ilog2().min(MOST_BITS);
        let mut is_quiet = || now.duration_since(*self.quiet_since.get_or_insert(now)) >= QUIET_FOR;
        if bits >= self.bits || is_quiet() {
            (self.bits, self.quiet_since) = (bits, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// The share after each second with this many packets.
    fn shares(share: &mut Share, rates: &[u64]) -> Vec<u32> {
        let (mut now, mut received) = (Instant::now(), 0);
        share.bits(now, || received);
        let seconds = rates.iter().map(|rate| {
            now += SECOND;
            received += rate;
            share.bits(now, || received)
        });
        seconds.collect()
    }

    #[test]
    fn all_are_followed_on_a_quiet_machine_and_few_on_a_busy_one() {
        let rates = [0, 4000, 4001, 64_000, 10_000_000];
        assert_eq!(shares(&mut Share::new(0, 2), &rates), [0, 0, 1, 4, 6]);
    }

    #[test]
    fn a_share_that_has_become_smaller_grows_only_when_it_has_been_quiet_for_a_while() {
        let mut rates = vec![64_000];
        rates.extend([0; 5]);
        rates.push(64_000);
        rates.extend([1000; 11]);
        let shares = shares(&mut Share::new(0, 2), &rates);
        assert_eq!(shares[..17], [4; 17]);
        assert_eq!(shares[17], 0);
    }

    #[test]
    fn a_share_that_is_set_stays_but_for_those_who_want_all() {
        let mut share = Share::new(16, 2);
        assert_eq!(shares(&mut share, &[0, 1_000_000, 0]), [4; 3]);
        let now = Instant::now();
        share.follow_all(now + 2 * SECOND);
        share.follow_all(now + SECOND);
        assert_eq!([1, 2].map(|seconds| share.bits(now + seconds * SECOND, || 0)), [0, 4]);
    }
}
