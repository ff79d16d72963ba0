//! Where knowledge of pods comes from: the four sources, and what keeps those running that are tasks.
//!
//! A source only says what it learns. It may fail at any time and for as long as it likes: it is tried again
//! after a growing pause, and what it has said before stays true until it says otherwise.

mod api;
mod backoff;
mod body;
mod cri;
#[cfg(test)]
mod fake;
mod feed;
mod kubelet;
mod runtime;
mod sieve;

use std::future::Future;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use tracing::{info, warn};

pub(super) use api::Api;
use backoff::Backoff;
pub(super) use cri::Cri;
pub(super) use feed::{Change, Demand, Feed, Update};
pub(super) use kubelet::Kubelet;
pub(super) use runtime::{Found, Runtime};
#[cfg(test)]
pub(super) use sieve::Sieve;
pub(super) use sieve::{Sifted, Want};

use crate::cgroup::name::printable;

/// As much of a reason as fits into a label.
const REASON_MAX: usize = 300;

/// Who says something, the most trustworthy first: where two disagree, the earlier one is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceKind {
    /// The API server.
    Kubernetes,
    /// The kubelet of this node.
    Kubelet,
    /// The container runtime, asked through its CRI socket.
    Cri,
    /// The files that the container runtime keeps while a container runs.
    Runtime,
}

impl SourceKind {
    pub const ALL: [Self; 4] = [Self::Kubernetes, Self::Kubelet, Self::Cri, Self::Runtime];

    /// As in the configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kubernetes => "kubernetes",
            Self::Kubelet => "kubelet",
            Self::Cri => "cri",
            Self::Runtime => "runtime",
        }
    }
}

/// A source that is a task of its own.
pub(super) trait Source: Send + 'static {
    const KIND: SourceKind;

    /// Tells what it learns, until something fails. Called again it goes on where it was.
    fn run(&mut self, feed: &Feed) -> impl Future<Output = Failure> + Send;
}

/// Why a source stopped, and when it is worth trying again.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("{0:#}")]
    Again(#[from] anyhow::Error),
    /// The other side says when to come back.
    #[error("{error:#}")]
    After { error: anyhow::Error, pause: std::time::Duration },
    /// Trying again is no use.
    #[error("{0:#}")]
    Never(anyhow::Error),
}

/// Runs a source until nobody listens any more.
pub(super) async fn keep_running<S: Source>(mut source: S, feed: Feed) {
    let name = S::KIND.name();
    let mut backoff = Backoff::default();
    loop {
        let started = Instant::now();
        let failure = tokio::select! {
            failure = source.run(&feed) => failure,
            () = feed.closed() => return,
        };
        let reason: String = printable(&failure.to_string()).chars().take(REASON_MAX).collect();
        feed.send(Change::Failed(reason.clone())).await;
        let pause = match &failure {
            Failure::Again(_) => backoff.next(started.elapsed()),
            Failure::After { pause, .. } => backoff.next_after(*pause),
            Failure::Never(_) => {
                info!(source = name, reason, "Pod name source unavailable; not retrying.");
                return;
            }
        };
        if backoff.is_worth_a_line() {
            warn!(source = name, error = reason, retry_in = ?pause, "Pod name source failed; retrying.");
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = feed.closed() => return,
        }
    }
}
