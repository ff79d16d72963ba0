//! The load average, by the kernel's own arithmetic: exponentially damped averages, in fixed point, of the
//! number of threads that run, wait for a CPU or sleep uninterruptibly. They are sampled every five seconds
//! and a tick. Pure.
//!
//! <https://github.com/torvalds/linux/blob/v6.12/kernel/sched/loadavg.c>

use std::time::Duration;

/// One, in fixed point (`FIXED_1`).
pub const ONE: u64 = 1 << BITS;
/// `FSHIFT`.
const BITS: u32 = 11;
/// Damping per sample of the averages over 1, 5 and 15 minutes (`EXP_1`, `EXP_5`, `EXP_15`): 1/exp(5 s/1 min)
/// and so on.
const DAMPING: [u64; 3] = [1884, 2014, 2037];

/// The three averages after `periods` more samples with the same load. The first one is damped once; the
/// missed ones after it are damped together, by a power.
#[must_use]
pub fn after(averages: [u64; 3], load: u64, periods: u32) -> [u64; 3] {
    let load = load * ONE;
    let mut later = averages;
    for (average, damping) in later.iter_mut().zip(DAMPING) {
        if periods > 0 {
            *average = damped(*average, damping, load);
        }
        if periods > 1 {
            *average = damped(*average, power(damping, periods - 1), load);
        }
    }
    later
}

/// `calc_load`: rounded up on the way up, so that a constant load is reached.
const fn damped(average: u64, damping: u64, load: u64) -> u64 {
    let sum = average * damping + load * (ONE - damping);
    (if load >= average { sum + ONE - 1 } else { sum }) / ONE
}

/// `fixed_power_int`.
const fn power(mut base: u64, mut exponent: u32) -> u64 {
    const HALF: u64 = 1 << (BITS - 1);
    let mut result = ONE;
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = (result * base + HALF) >> BITS;
        }
        exponent >>= 1;
        base = (base * base + HALF) >> BITS;
    }
    result
}

/// `LOAD_FREQ`: five seconds, plus a tick so as not to run in step with other periodic work.
#[must_use]
pub fn period(tick_ns: u64) -> Duration {
    Duration::from_secs(5) + Duration::from_nanos(tick_ns)
}

/// Schedules the samples. They are due at fixed times, a period apart, so that a late one delays no later one
/// and the averages are damped by the time that has passed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    first: Option<Duration>,
    /// The number of due samples that were taken or missed.
    taken: u64,
}

impl Pace {
    /// The number of due samples that a sample now stands for: one, more if some were missed, none if this
    /// one was already taken.
    pub fn take(&mut self, now: Duration, period: Duration) -> u32 {
        let first = *self.first.get_or_insert(now);
        let since = now.saturating_sub(first);
        // The nearest due time, because a timer's delay varies.
        let nearest = (since + period / 2).as_nanos() / period.as_nanos().max(1);
        let places = u64::try_from(nearest).unwrap_or(u64::MAX).saturating_add(1);
        let periods = places.saturating_sub(self.taken);
        self.taken = self.taken.max(places);
        u32::try_from(periods).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests;
