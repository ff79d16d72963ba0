//! How long softirqs and device interrupts take on one CPU. Of frequent softirqs a sample is measured. Times
//! are passed as functions, because to read the clock costs most.

use super::Timeline;
use crate::GOLDEN;

/// Stands for the start time of a softirq that is not measured.
const UNMEASURED: u64 = 1;

/// About one softirq is measured in this many nanoseconds on each CPU, because its two clock reads cost twice
/// as much as all the rest.
const MEASURED_EVERY: u64 = 250_000;
/// If measured softirqs are further apart than this, a larger share of them is measured.
const SELDOM: u64 = 4 * MEASURED_EVERY;
/// The smallest share, as a power of two: one of 64 softirqs is measured.
const LEAST_SHARE: u32 = 6;

impl Timeline {
    /// A softirq begins. Interrupts during it are a part of it.
    #[inline]
    pub fn begin_softirq(&mut self, now: impl FnOnce() -> u64) {
        self.softirqs = self.softirqs.wrapping_add(1);
        self.softirq_since = if is_measured(self) { now() } else { UNMEASURED };
    }

    #[inline]
    pub fn end_softirq(&mut self, now: impl FnOnce() -> u64) {
        let since = self.softirq_since;
        self.softirq_since = 0;
        if since > UNMEASURED {
            let now = now();
            self.interrupted += (now - since) << (self.softirq_share & 63);
            let pause = now.wrapping_sub(self.softirq_measured);
            self.softirq_measured = now;
            self.softirq_share = next_share(self.softirq_share, pause);
        }
    }

    /// A device's interrupt begins. During a softirq it is a part of that. If the end of an earlier one was
    /// missed, its beginning is dropped.
    #[inline]
    pub fn begin_interrupt(&mut self, now: impl FnOnce() -> u64) {
        self.interrupt_since = if self.softirq_since == 0 { now() } else { 0 };
    }

    #[inline]
    pub fn end_interrupt(&mut self, now: impl FnOnce() -> u64) {
        if self.interrupt_since != 0 {
            self.interrupted += now() - self.interrupt_since;
            self.interrupt_since = 0;
        }
    }
}

/// At irregular intervals, because timers and packets may alternate.
#[inline]
const fn is_measured(timeline: &Timeline) -> bool {
    let share = timeline.softirq_share & 63;
    share == 0 || (timeline.softirqs as u64).wrapping_mul(GOLDEN) >> (64 - share) == 0
}

/// The share to measure, by the time between the last two measured softirqs.
#[inline]
const fn next_share(share: u32, pause: u64) -> u32 {
    if pause < MEASURED_EVERY {
        if share < LEAST_SHARE { share + 1 } else { LEAST_SHARE }
    } else if pause > SELDOM && share > 0 {
        share - 1
    } else {
        share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeline() -> Timeline {
        // SAFETY: integers, and arrays of them, for which zero bytes are valid.
        unsafe { core::mem::zeroed() }
    }

    #[test]
    fn an_interrupt_whose_end_was_missed_is_not_counted() {
        let mut timeline = timeline();
        timeline.begin_interrupt(|| 100);
        timeline.end_interrupt(|| 103);
        assert_eq!(timeline.interrupted, 3);
        timeline.begin_interrupt(|| 200);
        timeline.begin_softirq(|| 900);
        timeline.begin_interrupt(|| 1000);
        timeline.end_interrupt(|| 1005);
        assert_eq!(timeline.interrupted, 3, "during a softirq, it is a part of that");
        timeline.end_softirq(|| 1010);
        assert_eq!(timeline.interrupted, 113);
        timeline.end_interrupt(|| 2000);
        assert_eq!(timeline.interrupted, 113, "an end alone");
    }

    #[test]
    fn the_measured_softirqs_stand_for_all() {
        const EACH: u64 = 2_000;
        const PAUSE: u64 = 10_000;
        let (mut timeline, mut reads, mut now) = (timeline(), 0_u32, 1_000_000);
        let softirqs = 100_000;
        for _ in 0..softirqs {
            now += PAUSE;
            timeline.begin_softirq(|| {
                reads += 1;
                now
            });
            now += EACH;
            timeline.end_softirq(|| now);
        }
        assert!((softirqs / 64..softirqs / 16).contains(&reads), "{reads} are measured");
        let all = EACH * u64::from(softirqs);
        assert!(timeline.interrupted.abs_diff(all) < all / 20, "{} of {all}", timeline.interrupted);
    }
}
