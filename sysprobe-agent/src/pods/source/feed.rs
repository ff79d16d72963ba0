//! What runs between a source's task and the engine: news in one direction, wishes in the other. Neither side
//! ever waits for the other's work: news are buffered, wishes are a flag.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use tokio::sync::{Notify, mpsc};

use super::SourceKind;
use crate::pods::pod::Pod;
use crate::pods::unread::Unread;
use crate::pods::wire::Listed;

/// News of one source.
#[derive(Clone, Debug)]
pub(in crate::pods) struct Update {
    pub(in crate::pods) source: SourceKind,
    /// When the source heard it, however late it is taken in.
    pub(in crate::pods) at: Instant,
    pub(in crate::pods) change: Change,
}

#[derive(Clone, Debug)]
pub(in crate::pods) enum Change {
    /// These are all pods that the source knows.
    Synced(Vec<Arc<Pod>>),
    /// A new pod, or a known one as it is now.
    Applied(Arc<Pod>),
    /// A part of a pod: what was said of it before stays true.
    Found(Arc<Pod>),
    /// The pod as it was last; it is no more.
    Deleted(Arc<Pod>),
    /// Nothing has changed, says the source.
    Alive,
    /// The source told of something that this agent cannot read.
    Unread(Unread),
    /// The source cannot tell for now, and why.
    Failed(String),
}

/// The source's end.
#[derive(Clone, Debug)]
pub(in crate::pods) struct Feed {
    source: SourceKind,
    updates: mpsc::Sender<Update>,
}

impl Feed {
    pub(in crate::pods) const fn new(source: SourceKind, updates: mpsc::Sender<Update>) -> Self {
        Self { source, updates }
    }

    /// Waits while the engine is behind; what is sent when nobody listens any more is dropped.
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

/// What a source that is only asked when needed is asked by.
#[derive(Debug, Default)]
pub(in crate::pods) struct Demand {
    wanted: Notify,
    unresolved: AtomicUsize,
}

impl Demand {
    /// Something is unresolved that the source could know.
    pub(in crate::pods) fn ask(&self) {
        self.wanted.notify_one();
    }

    /// How many containers wait for an answer.
    pub(in crate::pods) fn set_unresolved(&self, count: usize) {
        self.unresolved.store(count, Ordering::Relaxed);
    }

    pub(super) fn is_satisfied(&self) -> bool {
        self.unresolved.load(Ordering::Relaxed) == 0
    }

    /// Waits until somebody asks. A question that was asked before counts.
    pub(in crate::pods) async fn asked(&self) {
        self.wanted.notified().await;
    }
}
