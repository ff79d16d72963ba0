//! The steps of a key press: through intervals, and through sort keys.

use std::time::Duration;

use crate::cli::args::{LONGEST_INTERVAL, SHORTEST_INTERVAL};

const INTERVALS_MS: [u64; 12] =
    [100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 300_000, 900_000, 3_600_000];

pub(crate) fn longer(interval: Duration) -> Duration {
    let steps = INTERVALS_MS.map(Duration::from_millis);
    steps.into_iter().find(|step| *step > interval).unwrap_or(LONGEST_INTERVAL)
}

/// The element `by` positions after `from`, wrapping around; counted from the first element if `from` is not
/// in the list.
pub(crate) fn further<T: Copy + PartialEq>(list: &[T], from: T, by: isize) -> T {
    let index = list.iter().position(|one| *one == from).unwrap_or(0);
    list[(index + list.len()).wrapping_add_signed(by) % list.len()]
}

pub(crate) fn shorter(interval: Duration) -> Duration {
    let steps = INTERVALS_MS.map(Duration::from_millis);
    steps.into_iter().rfind(|step| *step < interval).unwrap_or(SHORTEST_INTERVAL)
}
