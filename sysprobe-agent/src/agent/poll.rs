//! Wakes the engine for the kernel's cgroup events, and once a second to clean up after removed cgroups.

use std::os::fd::OwnedFd;
use std::time::Duration;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::watch::Receiver;
use tokio::time::{MissedTickBehavior, interval};
use tracing::error;

use super::Shared;
use crate::engine::Engine;

/// Slots of removed cgroups are freed at this pace. It is also the unit of `READ_AT_LEAST`.
const PACE: Duration = Duration::from_secs(1);
/// The kernel's 32-bit counters are read at least once in so many ticks, with or without scrapes.
const READ_AT_LEAST: u32 = 60;

pub(super) async fn run(shared: Shared, wake_up: Option<OwnedFd>, mut stop: Receiver<bool>) {
    let events = wake_up.and_then(|descriptor| {
        // SAFETY: the descriptor is owned and stays open for as long as the registration.
        unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) }
            .inspect_err(|error| error!(%error, "Cannot wait for cgroup events; reading them once a second."))
            .ok()
    });
    let mut pace = interval(PACE);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut ticks = 0;
    loop {
        tokio::select! {
            () = readable(events.as_ref()) => act(&shared, Engine::tick).await,
            _ = pace.tick() => {
                ticks += 1;
                if ticks % READ_AT_LEAST == 0 {
                    report(shared.read().await);
                } else {
                    act(&shared, Engine::tick).await;
                }
            }
            _ = stop.changed() => return,
        }
    }
}

async fn readable(events: Option<&AsyncFd<OwnedFd>>) {
    let Some(events) = events else { return std::future::pending().await };
    if let Ok(mut guard) = events.readable().await {
        guard.clear_ready();
    }
}

async fn act(shared: &Shared, act: impl FnOnce(&mut Engine) + Send + 'static) {
    report(shared.with(act).await.map(drop));
}

fn report(outcome: anyhow::Result<()>) {
    if let Err(error) = outcome {
        error!(%error, "A background task failed.");
    }
}
