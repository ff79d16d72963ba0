//! Has all threads counted when the kernel would, every five seconds and a tick, whether or not anybody scrapes.

use tokio::sync::watch::Receiver;
use tokio::time::{MissedTickBehavior, interval};
use tracing::error;

use super::Shared;
use crate::engine::Engine;
use crate::host;
use crate::sched::load::period;

pub(super) async fn take_often(shared: Shared, mut stop: Receiver<bool>) {
    let mut pace = interval(period(host::tick_ns()));
    // What was missed is made up for by the next.
    pace.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            _ = pace.tick() => {
                if let Err(error) = take(&shared).await {
                    error!(%error, "The census failed.");
                }
            }
            _ = stop.changed() => return,
        }
    }
}

/// Nobody has to wait for the engine while the kernel counts.
async fn take(shared: &Shared) -> anyhow::Result<()> {
    if let Some(walk) = shared.with(Engine::begin_census).await?.flatten() {
        let counted = tokio::task::spawn_blocking(move || walk.run()).await?;
        shared.with(|engine| engine.end_census(counted)).await?;
    }
    Ok(())
}
