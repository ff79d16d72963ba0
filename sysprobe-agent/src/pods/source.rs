//! The four sources of pod names, and the loop that keeps running those that are tasks.
//!
//! A source only reports what it learns. It may fail at any time and for any length of time: it is tried
//! again after a growing pause, and its earlier reports stay valid until it replaces them.

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
use std::time::Duration;

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

/// When a server that does not offer what is asked for is tried again, before jitter. A container runtime
/// whose CRI plugin failed to start, or was turned on later, is restarted at the same socket.
const NOT_SERVED_PAUSE: Duration = Duration::from_secs(300);
/// The part of a reason that fits into a label.
const REASON_MAX: usize = 300;

/// Source of pod names, the most trustworthy first. If two sources disagree, the earlier one is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceKind {
    /// The Kubernetes API server.
    Kubernetes,
    /// The kubelet of this node.
    Kubelet,
    /// The container runtime, through its CRI socket.
    Cri,
    /// The state files of the container runtime.
    Runtime,
}

impl SourceKind {
    pub const ALL: [Self; 4] = [Self::Kubernetes, Self::Kubelet, Self::Cri, Self::Runtime];

    /// The name in the configuration.
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

/// A source that runs as a task.
pub(super) trait Source: Send + 'static {
    const KIND: SourceKind;

    /// Reports what it learns, until something fails. Called again, it continues where it was.
    fn run(&mut self, feed: &Feed) -> impl Future<Output = Failure> + Send;
}

/// Why a source stopped, and when it is worth trying again.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("{0:#}")]
    Again(#[from] anyhow::Error),
    /// The server says when to come back.
    #[error("{error:#}")]
    After { error: anyhow::Error, pause: Duration },
    /// The server does not accept the client's credentials.
    #[error("{0:#}")]
    Unauthorized(anyhow::Error),
    /// The server does not offer what is asked for, and may do so only after a restart.
    #[error("{0:#}")]
    NotServed(anyhow::Error),
}

impl Failure {
    /// Whether one side does not accept the other's certificate or token. Those in files may have been
    /// replaced since the client was made, and only a new client reads them.
    fn is_about_credentials(&self) -> bool {
        matches!(self, Self::Unauthorized(_)) || format!("{self:#}").to_lowercase().contains("certificate")
    }
}

/// Runs a source until the engine has gone.
pub(super) async fn keep_running<S: Source>(mut source: S, feed: Feed) {
    let name = S::KIND.name();
    let mut backoff = Backoff::default();
    let mut told = String::new();
    loop {
        let started = Instant::now();
        let failure = tokio::select! {
            failure = source.run(&feed) => failure,
            () = feed.closed() => return,
        };
        let reason: String = printable(&failure.to_string()).chars().take(REASON_MAX).collect();
        feed.send(Change::Failed(reason.clone())).await;
        let pause = match &failure {
            Failure::Again(_) | Failure::Unauthorized(_) => backoff.next(started.elapsed()),
            Failure::After { pause, .. } => backoff.next_after(*pause),
            Failure::NotServed(_) => backoff.next_after(NOT_SERVED_PAUSE),
        };
        if matches!(failure, Failure::NotServed(_)) {
            if told != reason {
                info!(source = name, reason, retry_in = ?pause, "Pod name source unavailable; retrying.");
                told = reason;
            }
        } else if backoff.is_worth_a_line() {
            warn!(source = name, error = reason, retry_in = ?pause, "Pod name source failed; retrying.");
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = feed.closed() => return,
        }
    }
}
