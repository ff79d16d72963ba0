//! The accepted values. They are checked while the file is parsed, so that the error shows the line.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use serde::de::{Deserialize, Deserializer, Error};
use tracing_subscriber::EnvFilter;

/// Three slots are reserved, so a smaller map could tell few cgroups apart. The upper limit amounts to
/// 784 MiB of maps.
const SLOTS: RangeInclusive<u32> = 16..=65_536;
/// The upper limit is the most tasks that Linux supports (`PID_MAX_LIMIT`).
const TASKS: RangeInclusive<u32> = 1024..=4_194_304;
/// The upper limit is enough for ten million sockets.
const STORAGE_MEBIBYTES: RangeInclusive<u32> = 0..=8192;
/// The upper limit is never reached.
const CALLS: RangeInclusive<u64> = 0..=1_000_000_000;
const ONE_IN: RangeInclusive<u32> = 0..=64;
const GRACE_SECONDS: RangeInclusive<u64> = 1..=3600;

/// 0 leaves the choice to the plan.
pub(super) fn slots<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    match u32::deserialize(deserializer)? {
        0 => Ok(0),
        slots => check(slots, &SLOTS),
    }
}

pub(super) fn tasks<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    within(deserializer, &TASKS)
}

pub(super) fn storage<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    within(deserializer, &STORAGE_MEBIBYTES)
}

pub(super) fn calls<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    within(deserializer, &CALLS)
}

pub(super) fn one_in<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let one_in = within(deserializer, &ONE_IN)?;
    if one_in == 0 || one_in.is_power_of_two() {
        return Ok(one_in);
    }
    Err(D::Error::custom(format!("{one_in} is not a power of two")))
}

pub(super) fn grace<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    within(deserializer, &GRACE_SECONDS)
}

pub(super) fn within<'de, D, T>(deserializer: D, range: &RangeInclusive<T>) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + PartialOrd + Display,
{
    check(T::deserialize(deserializer)?, range)
}

fn check<T: PartialOrd + Display, E: Error>(value: T, range: &RangeInclusive<T>) -> Result<T, E> {
    if range.contains(&value) {
        return Ok(value);
    }
    Err(E::custom(format!("{value} is not between {} and {}", range.start(), range.end())))
}

pub(super) fn absolute<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
    check_absolute(PathBuf::deserialize(deserializer)?).map_err(D::Error::custom)
}

pub(super) fn absolute_if_any<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<PathBuf>, D::Error> {
    absolute(deserializer).map(Some)
}

/// Also validates the flag's value.
pub(crate) fn check_absolute(path: PathBuf) -> Result<PathBuf, &'static str> {
    if path.is_absolute() { Ok(path) } else { Err("the path must be absolute") }
}

pub(super) fn filter<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let filter = String::deserialize(deserializer)?;
    match EnvFilter::try_new(&filter) {
        Ok(_) => Ok(filter),
        Err(error) => Err(D::Error::custom(format!("neither a log level nor filter directives: {error}"))),
    }
}
