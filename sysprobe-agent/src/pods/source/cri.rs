//! The container runtime (containerd, CRI-O) through its CRI socket: its lists of sandboxes and containers, when
//! somebody asks for a container that nobody knows, and now and then. A container is in the list before its cgroup is
//! made.
//!
//! The stream of events that runtimes offer (`GetContainerEvents`) is left alone. containerd 1.7 gives each event to one
//! reader only, which takes it away from the kubelet; containerd 2 waits for the slowest reader, so that an agent that is
//! stopped or throttled keeps the whole node from starting containers.

use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use tokio::time::{Instant, sleep_until, timeout};
use tonic::{Code, Status};
use tracing::debug;

use super::{Change, Demand, Failure, Feed, Source, SourceKind};
use crate::pods::plan::CriPlan;
use client::Client;

mod client;
mod list;
mod messages;

/// What the runtime has forgotten is found out by this, and that it is still there.
const LIST_EVERY: Duration = Duration::from_secs(60);
/// It answers from memory, in a millisecond or two.
const LIST_AT_MOST_EVERY: Duration = Duration::from_millis(300);

pub(in crate::pods) struct Cri {
    plan: CriPlan,
    demand: Arc<Demand>,
}

impl Cri {
    pub(in crate::pods) const fn new(plan: CriPlan, demand: Arc<Demand>) -> Self {
        Self { plan, demand }
    }

    async fn answer(&mut self, feed: &Feed) -> Result<(), Failure> {
        let client = Client::connect(&self.plan.socket).await?;
        loop {
            self.list(&client, feed).await?;
            let listed = Instant::now();
            // Nobody asking for so long is no failure.
            drop(timeout(LIST_EVERY, self.demand.asked()).await);
            sleep_until(listed + LIST_AT_MOST_EVERY).await;
        }
    }

    async fn list(&self, client: &Client, feed: &Feed) -> Result<(), Failure> {
        // Containers first: one that is made in between has a sandbox that is in the second list.
        let containers = client.containers().await.map_err(|status| failure(&status))?;
        let sandboxes = client.sandboxes().await.map_err(|status| failure(&status))?;
        let pods = list::of_lists(sandboxes, containers);
        debug!(pods = pods.len(), "The container runtime listed its pods.");
        feed.send(Change::Synced(pods)).await;
        Ok(())
    }
}

fn failure(status: &Status) -> Failure {
    let error = anyhow!("asking the container runtime: {}", status.message());
    match status.code() {
        // containerd as Docker ships it has this part turned off.
        Code::Unimplemented => Failure::Never(error.context("the socket's owner has no CRI")),
        _ => Failure::Again(error),
    }
}

impl Source for Cri {
    const KIND: SourceKind = SourceKind::Cri;

    async fn run(&mut self, feed: &Feed) -> Failure {
        match self.answer(feed).await {
            Ok(()) => anyhow!("nobody asks any more").into(),
            Err(failure) => failure,
        }
    }
}
