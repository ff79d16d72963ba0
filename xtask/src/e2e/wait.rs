//! Waiting for conditions, with a limit that only something broken reaches.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// Far longer than any step takes, even on a busy machine.
pub(super) const LIMIT: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(50);

/// Repeats the check until it has an answer. An error ends the wait.
pub(super) fn until<T>(what: &str, condition: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    until_within(LIMIT, what, condition)
}

pub(super) fn until_within<T>(
    limit: Duration,
    what: &str,
    mut condition: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    let start = Instant::now();
    loop {
        if let Some(value) = condition()? {
            return Ok(value);
        }
        if start.elapsed() > limit {
            bail!("waited {} s in vain: {what}", limit.as_secs());
        }
        thread::sleep(PAUSE);
    }
}
