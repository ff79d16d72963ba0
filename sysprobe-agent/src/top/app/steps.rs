//! What one press of a key steps to.

use std::time::Duration;

use crate::top::{
    args::{LONGEST_INTERVAL, SHORTEST_INTERVAL},
    rows::{Selection, SortKey},
};

const INTERVALS_MS: [u64; 12] =
    [100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 300_000, 900_000, 3_600_000];

pub(super) fn longer(interval: Duration) -> Duration {
    let steps = INTERVALS_MS.map(Duration::from_millis);
    steps.into_iter().find(|step| *step > interval).unwrap_or(LONGEST_INTERVAL)
}

pub(super) fn shorter(interval: Duration) -> Duration {
    let steps = INTERVALS_MS.map(Duration::from_millis);
    steps.into_iter().rfind(|step| *step < interval).unwrap_or(SHORTEST_INTERVAL)
}

/// The sort key of the table so many places further, round and round.
pub(super) fn sort_key(selection: &Selection, by: isize) -> SortKey {
    let keys = selection.topic.sort_keys();
    let index = keys.iter().position(|key| *key == selection.sort).unwrap_or(0);
    keys[(index + keys.len()).wrapping_add_signed(by) % keys.len()]
}
