//! The arithmetic against series that were computed independently, and against properties of any such
//! average.

use super::*;

/// The averages over one minute with three spinning threads for a minute from zero, then with none for half a
/// minute. Computed from `calc_load`'s formula by hand (bc, integers).
const UP: [u64; 12] = [492, 945, 1362, 1745, 2098, 2422, 2721, 2996, 3249, 3481, 3695, 3892];
const DOWN: [u64; 6] = [3580, 3293, 3029, 2786, 2562, 2356];

#[test]
fn a_load_that_comes_and_goes_has_the_kernels_series() {
    let mut averages = [0; 3];
    for expected in UP {
        averages = after(averages, 3, 1);
        assert_eq!(averages[0], expected);
    }
    assert_eq!(averages, [3892, 1123, 390]);
    for expected in DOWN {
        averages = after(averages, 0, 1);
        assert_eq!(averages[0], expected);
    }
    assert_eq!(averages, [2356, 1012, 372]);
}

#[test]
fn a_constant_load_is_reached_and_zero_again() {
    let mut averages = [0; 3];
    for _ in 0..4000 {
        averages = after(averages, 7, 1);
    }
    assert_eq!(averages, [7 * ONE; 3]);
    for _ in 0..4000 {
        averages = after(averages, 0, 1);
    }
    assert_eq!(averages, [0; 3]);
}

/// The kernel rounds differently here: `calc_load_n` damps once, by a power.
#[test]
fn missed_samples_are_made_up_for() {
    assert_eq!(power(1884, 0), 2048);
    assert_eq!(power(1884, 1), 1884);
    // 1884^2 / 2048 = 1733.13, and 1733 * 1884 / 2048 = 1594.2.
    assert_eq!(power(1884, 2), 1733);
    assert_eq!(power(1884, 3), 1594);
    let start = [1000, 2000, 3000];
    let one_by_one = (0..6).fold(start, |averages, _| after(averages, 4, 1));
    let at_once = after(start, 4, 6);
    for (at_once, one_by_one) in at_once.iter().zip(one_by_one) {
        assert!(at_once.abs_diff(one_by_one) <= 8, "{at_once} {one_by_one}");
    }
    assert_eq!(after(start, 4, 0), start);
}

#[test]
fn an_agent_that_slept_for_a_year_does_not_overflow() {
    let year = 365 * 24 * 3600 / 5;
    assert_eq!(after([ONE * 100_000; 3], 0, year), [0; 3]);
    let full = after([0; 3], 4_000_000, u32::MAX);
    assert!(full.iter().all(|average| average / ONE >= 3_999_999), "{full:?}");
}

#[test]
fn a_late_sample_stands_for_those_that_were_missed() {
    let (period, mut pace) = (period(4_000_000), Pace::default());
    let start = Duration::from_secs(1000);
    let mut take = |periods: f64| pace.take(start + period.mul_f64(periods), period);
    assert_eq!(take(0.0), 1);
    assert_eq!(take(1.01), 1);
    // Less late than the sample before.
    assert_eq!(take(1.99), 1);
    assert_eq!(take(3.1), 1);
    // 4 and 5 are missed; 6 comes early, and again.
    assert_eq!(take(5.7), 3);
    assert_eq!(take(6.0), 0);
    assert_eq!(take(7.0), 1);
}

#[test]
fn a_period_is_five_seconds_and_a_tick() {
    assert_eq!(period(4_000_000), Duration::from_millis(5004));
}
