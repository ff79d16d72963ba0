//! The container runtime (containerd, CRI-O) through its CRI socket. Reads its lists of sandboxes and
//! containers when an unknown container is asked for, and at long intervals. A container is in the list
//! before its cgroup is created.
//!
//! The stream of events that runtimes offer (`GetContainerEvents`) is not used. containerd 1.7 gives each
//! event to one reader only, so the kubelet would lose it. containerd 2 waits for the slowest reader, so an
//! agent that is stopped or throttled would keep the whole node from starting containers.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use tokio::time::{Instant, sleep_until, timeout};
use tonic::{Code, Status};
use tracing::{debug, info};

use super::{Demand, Failure, Feed, Source, SourceKind};
use crate::pods::plan::CriPlan;
use crate::pods::vitality::Vitality;
use crate::pods::wire::Listed;
use client::Client;
use messages::{Container, PodSandbox};

mod client;
mod items;
mod list;
mod messages;

/// Shows which containers the runtime has forgotten, and that the runtime is still there.
const LIST_EVERY: Duration = Duration::from_secs(60);
/// The runtime answers from memory, in a millisecond or two.
const LIST_AT_MOST_EVERY: Duration = Duration::from_millis(300);

pub(in crate::pods) struct Cri {
    plan: CriPlan,
    demand: Arc<Demand>,
    vitality: Vitality,
    /// The socket at which a container runtime last answered. It is tried first.
    answered: Option<PathBuf>,
}

impl Cri {
    pub(in crate::pods) const fn new(plan: CriPlan, demand: Arc<Demand>, vitality: Vitality) -> Self {
        Self { plan, demand, vitality, answered: None }
    }

    async fn answer(&mut self, feed: &Feed) -> Result<(), Failure> {
        let (client, mut pods) = self.find().await?;
        loop {
            debug!(pods = pods.pods.len(), "The container runtime listed its pods.");
            feed.send_list(pods).await;
            let listed = Instant::now();
            // A timeout only means that no question came.
            drop(timeout(LIST_EVERY, self.demand.asked()).await);
            sleep_until(listed + LIST_AT_MOST_EVERY).await;
            pods = list(&client).await?;
        }
    }

    /// The first socket at which a container runtime answers, and its pods. Docker's containerd has a socket
    /// in the usual place, but no CRI behind it.
    async fn find(&mut self) -> Result<(Client, Listed), Failure> {
        let mut failures = Vec::new();
        for socket in self.in_order() {
            match ask(&socket).await {
                Ok(found) => {
                    self.found(socket);
                    return Ok(found);
                }
                Err(failure) => {
                    self.note(&socket, &failure);
                    failures.push(failure);
                }
            }
        }
        Err(together(failures))
    }

    fn in_order(&self) -> Vec<PathBuf> {
        let planned = [&self.plan.socket].into_iter().chain(&self.plan.others);
        let others = planned.filter(|socket| Some(*socket) != self.answered.as_ref());
        self.answered.iter().chain(others).cloned().collect()
    }

    fn found(&mut self, socket: PathBuf) {
        self.vitality.has_answered();
        if self.answered.as_ref() != Some(&socket) {
            info!(socket = %socket.display(), "Connected to the container runtime.");
            self.answered = Some(socket);
        }
    }

    /// A failure of the socket that answered before shows whether it was replaced.
    fn note(&self, socket: &Path, failure: &Failure) {
        if self.answered.as_deref() != Some(socket) {
            return;
        }
        if is_refusal(failure) {
            self.vitality.was_refused(SourceKind::Cri, &failure.to_string(), std::time::Instant::now());
        } else {
            self.vitality.has_failed();
        }
    }
}

async fn ask(socket: &Path) -> Result<(Client, Listed), Failure> {
    let client = Client::connect(socket).await?;
    match list(&client).await {
        Ok(pods) => Ok((client, pods)),
        Err(Failure::NotServed(error)) => {
            Err(Failure::NotServed(error.context(format!("{} does not serve the CRI", socket.display()))))
        }
        Err(failure) => Err(failure),
    }
}

async fn list(client: &Client) -> Result<Listed, Failure> {
    // Lists containers first, so that the second list has the sandbox of each container in the first.
    let containers = client.list::<Container>().await.map_err(|status| failure(&status))?;
    let sandboxes = client.list::<PodSandbox>().await.map_err(|status| failure(&status))?;
    let unread = containers.unread.into_iter().chain(sandboxes.unread).collect();
    Ok(Listed::of(list::of_lists(sandboxes.items, containers.items), unread))
}

fn failure(status: &Status) -> Failure {
    let error = anyhow!("querying the container runtime: {}", status.message());
    match status.code() {
        // The containerd that Docker ships has the CRI turned off.
        Code::Unimplemented => Failure::NotServed(error),
        _ => Failure::Again(error),
    }
}

/// Whether no process listens at the socket.
fn is_refusal(failure: &Failure) -> bool {
    let (Failure::Again(error)
    | Failure::Unauthorized(error)
    | Failure::NotServed(error)
    | Failure::After { error, .. }) = failure;
    let kinds = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>()).map(io::Error::kind);
    kinds.into_iter().any(|kind| kind == io::ErrorKind::ConnectionRefused)
}

/// Combines the failures of all candidates. They are left alone for long only if each says that it does not
/// serve the CRI.
fn together(mut failures: Vec<Failure>) -> Failure {
    if failures.len() == 1 {
        return failures.remove(0);
    }
    let reasons: Vec<_> = failures.iter().map(Failure::to_string).collect();
    let error = anyhow!(reasons.join("; "));
    if failures.iter().all(|failure| matches!(failure, Failure::NotServed(_))) {
        return Failure::NotServed(error);
    }
    Failure::Again(error)
}

impl Source for Cri {
    const KIND: SourceKind = SourceKind::Cri;

    async fn run(&mut self, feed: &Feed) -> Failure {
        match self.answer(feed).await {
            Ok(()) => anyhow!("there are no more requests for names").into(),
            Err(failure) => failure,
        }
    }
}

#[cfg(test)]
mod tests;
