//! Waits for the names of pods, which a source that was started just now has yet to learn.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::cli::target::NoTarget;
use crate::snapshot::Snapshot;
use crate::snapshot::source::Source;

/// An API server answers within this time.
const NAMES_WITHIN: Duration = Duration::from_secs(3);
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(250);

/// Takes snapshots until `look` succeeds or no more names can arrive; returns its result and the snapshot.
pub(crate) async fn awaited<T>(
    source: &mut impl Source,
    look: impl Fn(&Snapshot) -> Result<T, NoTarget>,
) -> anyhow::Result<(T, Snapshot)> {
    let begun = Instant::now();
    loop {
        let snapshot = source.next().await?;
        let names_may_come =
            source.is_new() && !snapshot.agent.pod_sources.is_empty() && begun.elapsed() < NAMES_WITHIN;
        match look(&snapshot) {
            Ok(found) => return Ok((found, snapshot)),
            Err(error) if error.is_unknown() && names_may_come => sleep(LOOK_AGAIN_AFTER).await,
            Err(error) => return Err(error.into()),
        }
    }
}
