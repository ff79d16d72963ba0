//! The container runtime through its CRI socket: a list at the start and now and then, and the stream of events where
//! the runtime has one (containerd since 1.7, CRI-O if it is turned on). Without it, a list when somebody asks.

use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use futures::future;
use tokio::time::{Instant, sleep_until};
use tonic::{Code, Status, Streaming};
use tracing::{debug, info};

use super::{Change, Demand, Failure, Feed, Source, SourceKind};
use crate::pods::plan::CriPlan;
use client::Client;
use messages::ContainerEventResponse;

mod client;
mod list;
mod messages;

/// What the runtime has forgotten is found out by this, and that it is still there.
const LIST_EVERY: Duration = Duration::from_secs(60);
const LIST_AT_MOST_EVERY: Duration = Duration::from_secs(1);

pub(in crate::pods) struct Cri {
    plan: CriPlan,
    demand: Arc<Demand>,
    /// The runtime has no stream of events.
    without_events: bool,
}

/// What there is to do next.
enum Next {
    Event(Result<Option<ContainerEventResponse>, Status>),
    Asked,
    List,
}

impl Cri {
    pub(in crate::pods) const fn new(plan: CriPlan, demand: Arc<Demand>) -> Self {
        Self { plan, demand, without_events: false }
    }

    async fn follow(&mut self, feed: &Feed) -> Result<(), Failure> {
        let client = Client::connect(&self.plan.socket).await?;
        let mut events = Events::open(&client, self.without_events);
        let mut list_at = Instant::now();
        let mut listed: Option<Instant> = None;
        loop {
            match next(&mut events, &self.demand, list_at).await {
                Next::Event(Ok(Some(event))) => {
                    if let Some(pod) = list::of_event(event) {
                        feed.send(Change::Applied(Arc::new(pod))).await;
                    }
                }
                Next::Event(Err(status)) if status.code() != Code::Unimplemented => {
                    return Err(anyhow!("the runtime's events ended: {}", status.message()).into());
                }
                Next::Event(Ok(None) | Err(_)) => {
                    info!("The container runtime has no events: it is asked when a container is unknown.");
                    self.without_events = true;
                    events = Events::None;
                }
                Next::Asked => {
                    let soon = listed.map_or_else(Instant::now, |listed| listed + LIST_AT_MOST_EVERY);
                    list_at = list_at.min(soon);
                }
                Next::List => {
                    self.list(&client, feed).await?;
                    listed = Some(Instant::now());
                    list_at = Instant::now() + LIST_EVERY;
                }
            }
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

/// The stream of events: being opened, which may last until the first event, or open, or not there.
enum Events {
    None,
    Opening(future::BoxFuture<'static, Result<Streaming<ContainerEventResponse>, Status>>),
    Open(Box<Streaming<ContainerEventResponse>>),
}

impl Events {
    fn open(client: &Client, without: bool) -> Self {
        if without {
            return Self::None;
        }
        let client = client.clone();
        Self::Opening(Box::pin(async move { client.events().await }))
    }

    /// May be dropped while it waits.
    async fn next(&mut self) -> Result<Option<ContainerEventResponse>, Status> {
        if let Self::Opening(opening) = self {
            *self = Self::Open(Box::new(opening.await?));
        }
        match self {
            Self::Open(stream) => stream.message().await,
            _ => future::pending().await,
        }
    }
}

/// Events come first, so that the stream has been asked for before the list is.
async fn next(events: &mut Events, demand: &Demand, list_at: Instant) -> Next {
    tokio::select! {
        biased;
        event = events.next() => Next::Event(event),
        () = demand.asked() => Next::Asked,
        () = sleep_until(list_at) => Next::List,
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
        match self.follow(feed).await {
            Ok(()) => anyhow!("nothing follows").into(),
            Err(failure) => failure,
        }
    }
}
