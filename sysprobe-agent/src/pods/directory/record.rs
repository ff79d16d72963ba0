//! One pod in the directory: the view of each source, and the ids that were asked for and that no source
//! knows.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::merge::{Role, merge, roles};
use crate::pods::id::ContainerId;
use crate::pods::pod::Pod;
use crate::pods::source::SourceKind;

/// A container's id is in the pod's status within a second, or a few on a busy node. An id that stays unknown
/// for longer, in a pod whose containers are all known, is the sandbox.
pub(crate) const SANDBOX_AFTER: Duration = Duration::from_secs(10);
/// The same while a container of the pod has no id, because its image is pulled or an init container runs. An
/// overloaded API server reports an id this late.
pub(crate) const SANDBOX_WHILE_STARTING: Duration = Duration::from_secs(45);
/// An id that was not asked for in this time is forgotten, because its container has gone.
const STRANGER_FORGOTTEN: Duration = Duration::from_secs(120);
/// A pod that creates cgroups with names like ids must not fill the memory.
const STRANGERS_MAX: usize = 16;

#[derive(Debug)]
pub(super) struct Record {
    views: [Option<Arc<Pod>>; SourceKind::ALL.len()],
    merged: Arc<Pod>,
    gone: Option<Instant>,
    /// When the pod was last asked for.
    pub(super) asked: Instant,
    strangers: Vec<Stranger>,
    sandbox: Option<ContainerId>,
}

/// An id in the pod's cgroup that no source knows.
#[derive(Debug)]
struct Stranger {
    id: ContainerId,
    first: Instant,
    last: Instant,
}

impl Record {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            views: Default::default(),
            merged: Arc::default(),
            gone: None,
            asked: now,
            strangers: Vec::new(),
            sandbox: None,
        }
    }

    pub(super) const fn merged(&self) -> &Arc<Pod> {
        &self.merged
    }

    pub(super) const fn gone(&self) -> Option<Instant> {
        self.gone
    }

    pub(super) fn view(&self, source: SourceKind) -> Option<&Arc<Pod>> {
        self.views[source as usize].as_ref()
    }

    pub(super) fn set(&mut self, source: SourceKind, pod: Arc<Pod>) {
        self.views[source as usize] = Some(pod);
        self.gone = None;
    }

    /// Drops the views of the source and of all less trustworthy ones. The last merged view stays for the
    /// grace period.
    pub(super) fn remove_from(&mut self, source: SourceKind, now: Instant) {
        self.views[source as usize..].fill(None);
        if self.views.iter().all(Option::is_none) {
            self.gone.get_or_insert(now);
        }
    }

    /// Whether only the runtime's files name it. No source will report its end.
    pub(super) fn is_found_only(&self) -> bool {
        let better = &self.views[..SourceKind::Runtime as usize];
        better.iter().all(Option::is_none)
    }

    /// Merges the current views. Returns the roles of the ids, and the ids that are no longer reported.
    pub(super) fn merge(&mut self) -> (Vec<(ContainerId, Role)>, Vec<ContainerId>) {
        let before = roles(&self.merged).into_iter().map(|(id, _)| id);
        let Some(merged) = merge(self.views.iter().flatten()) else {
            return (Vec::new(), before.collect());
        };
        let given_up = before.filter(|id| !merged.has_id(id)).collect();
        self.strangers.retain(|stranger| !merged.has_id(&stranger.id));
        self.sandbox = self.sandbox.filter(|id| !merged.has_id(id));
        self.merged = merged;
        (roles(&self.merged), given_up)
    }

    /// Whether an id that no source knows is the sandbox. The API and the kubelet never report sandboxes, and
    /// report a container only some time after its cgroup was created.
    pub(super) fn must_be_sandbox(&mut self, id: ContainerId, now: Instant) -> bool {
        // Only these two list every container that the pod should have.
        let is_listed = self.view(SourceKind::Kubernetes).or(self.view(SourceKind::Kubelet)).is_some();
        if !is_listed || !self.merged.sandboxes.is_empty() {
            return false;
        }
        if self.sandbox.is_some() {
            return self.sandbox == Some(id);
        }
        let since = self.meet(id, now);
        let pod = &self.merged;
        let sandbox_after = if pod.is_starting() { SANDBOX_WHILE_STARTING } else { SANDBOX_AFTER };
        let is_only = !pod.containers.is_empty() && self.strangers.len() == 1;
        let is_sandbox = is_only && now.duration_since(since) >= sandbox_after;
        if is_sandbox {
            self.sandbox = Some(id);
            self.strangers.clear();
        }
        is_sandbox
    }

    /// When the id was first asked for.
    fn meet(&mut self, id: ContainerId, now: Instant) -> Instant {
        self.strangers.retain(|stranger| now.duration_since(stranger.last) < STRANGER_FORGOTTEN);
        if let Some(stranger) = self.strangers.iter_mut().find(|stranger| stranger.id == id) {
            stranger.last = now;
            return stranger.first;
        }
        if self.strangers.len() < STRANGERS_MAX {
            self.strangers.push(Stranger { id, first: now, last: now });
        }
        now
    }
}
