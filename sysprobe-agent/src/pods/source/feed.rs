//! The channels between a source's task and the engine: reports in one direction, requests in the other.
//! Neither side ever waits for the other's work: reports are buffered, a request is a flag.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use tokio::sync::{Notify, mpsc};

use super::SourceKind;
use crate::pods::pod::Pod;
use crate::pods::unread::Unread;
use crate::pods::wire::Listed;

/// A report of one source.
#[derive(Clone, Debug)]
pub(in crate::pods) struct Update {
    pub(in crate::pods) source: SourceKind,
    /// When the source received it, however late it is taken in.
    pub(in crate::pods) at: Instant,
    pub(in crate::pods) change: Change,
}

#[derive(Clone, Debug)]
pub(in crate::pods) enum Change {
    /// All pods that the source knows.
    Synced(Vec<Arc<Pod>>),
    /// A new pod, or the current state of a known one.
    Applied(Arc<Pod>),
    /// A part of a pod. Earlier reports of the pod stay valid.
    Found(Arc<Pod>),
    /// The last state of a pod that is gone.
    Deleted(Arc<Pod>),
    /// Nothing has changed, and the source is alive.
    Alive,
    /// The source reported an object that this agent cannot read.
    Unread(Unread),
    /// The source cannot report for now, and why.
    Failed(String),
}

/// The source's end of the channel.
#[derive(Clone, Debug)]
pub(in crate::pods) struct Feed {
    source: SourceKind,
    updates: mpsc::Sender<Update>,
}

impl Feed {
    pub(in crate::pods) const fn new(source: SourceKind, updates: mpsc::Sender<Update>) -> Self {
        Self { source, updates }
    }

    /// Waits while the engine is behind. Without an engine the change is dropped.
    pub(super) async fn send(&self, change: Change) {
        let update = Update { source: self.source, at: Instant::now(), change };
        drop(self.updates.send(update).await);
    }

    pub(super) async fn send_list(&self, Listed { pods, unread, .. }: Listed) {
        self.send(Change::Synced(pods)).await;
        for unread in unread {
            self.send(Change::Unread(unread)).await;
        }
    }

    pub(super) async fn closed(&self) {
        self.updates.closed().await;
    }
}

/// Asks a source that only reports on request.
#[derive(Debug, Default)]
pub(in crate::pods) struct Demand {
    wanted: Notify,
    unresolved: AtomicUsize,
}

impl Demand {
    /// Asks for something unresolved that the source may know.
    pub(in crate::pods) fn ask(&self) {
        self.wanted.notify_one();
    }

    /// How many containers are waiting for a name.
    pub(in crate::pods) fn set_unresolved(&self, count: usize) {
        self.unresolved.store(count, Ordering::Relaxed);
    }

    pub(super) fn is_satisfied(&self) -> bool {
        self.unresolved.load(Ordering::Relaxed) == 0
    }

    /// Waits for a question. One that was asked before the call counts.
    pub(in crate::pods) async fn asked(&self) {
        self.wanted.notified().await;
    }
}
