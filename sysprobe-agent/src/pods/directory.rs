//! Everything that the sources have reported, merged: from a cgroup's pod UID and container id to names.
//!
//! Pure and synchronous: time is an argument. The first source to know a pod names it; if several know it,
//! the most trustworthy one wins (`merge.rs`). Every look-up is one in a hash table. A pod that has gone
//! stays known for a grace period, because the last numbers of its cgroups come later.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::warn;

use super::answer::Answer;
use super::id::ContainerId;
use super::pod::Pod;
use super::source::{Change, SourceKind, Update};
use merge::Role;
use record::Record;
pub(crate) use record::{SANDBOX_AFTER, SANDBOX_WHILE_STARTING};

mod merge;
mod record;

/// Far more than run on a node, even if a hundred start and end each second of the grace period.
const PODS_MAX: usize = 16_384;
const CONTAINERS_MAX: usize = 65_536;
/// Ids of one container, if a source only reports parts.
const IDS_MAX: usize = 8;
/// Entries that only the runtime's files know are dropped if they are not asked for in this time, and read
/// again if they are asked for later.
const KEPT_UNASKED: Duration = Duration::from_secs(600);
const EXPIRE_EVERY: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Directory {
    grace: Duration,
    /// By the UID that the cgroups carry (`Pod::key`).
    pods: HashMap<Arc<str>, Record>,
    containers: HashMap<ContainerId, Claim>,
    /// Containers outside of pods.
    plain: HashMap<ContainerId, Plain>,
    expired: Option<Instant>,
    /// Something did not fit in. This is logged once.
    is_full: bool,
    changes: u64,
}

/// The owner of a container id.
#[derive(Debug)]
struct Claim {
    key: Arc<str>,
    role: Role,
    /// Since when no source reports it.
    gone: Option<Instant>,
}

#[derive(Debug)]
struct Plain {
    name: Arc<str>,
    asked: Instant,
}

impl Directory {
    pub(super) fn new(grace: Duration) -> Self {
        Self {
            grace,
            pods: HashMap::new(),
            containers: HashMap::new(),
            plain: HashMap::new(),
            expired: None,
            is_full: false,
            changes: 0,
        }
    }

    pub(super) fn apply(&mut self, update: Update, now: Instant) {
        let Update { source, change, .. } = update;
        match change {
            Change::Synced(pods) => self.sync(source, pods, now),
            Change::Applied(pod) => self.set(source, pod, now),
            Change::Found(part) => self.add(source, &part, now),
            Change::Deleted(pod) => {
                let key = Arc::clone(pod.key());
                // The last state of a deleted pod may name containers that were not known yet.
                self.set(source, Arc::clone(&pod), now);
                if self.view_uid(&key, source) == Some(&pod.uid) {
                    self.remove(&key, source, now);
                }
            }
            Change::Alive | Change::Unread(_) | Change::Failed(_) => return,
        }
        self.changes += 1;
    }

    /// Adds a container outside of pods.
    pub(super) fn name(&mut self, id: ContainerId, name: Arc<str>, now: Instant) {
        if self.plain.len() < CONTAINERS_MAX || self.plain.contains_key(&id) {
            self.plain.insert(id, Plain { name, asked: now });
            self.changes += 1;
        }
    }

    /// Grows with every change. After one, something unknown may have become known.
    pub(super) const fn changes(&self) -> u64 {
        self.changes
    }

    /// `uid` and `id` come from a cgroup's path.
    pub(super) fn look_up(&mut self, uid: Option<&str>, id: Option<ContainerId>, now: Instant) -> Answer {
        if let Some(claim) = id.and_then(|id| self.containers.get(&id))
            && let Some(record) = self.pods.get_mut(&claim.key)
        {
            record.asked = now;
            let pod = Arc::clone(record.merged());
            return match &claim.role {
                Role::Container(container) => Answer::Container { pod, container: Arc::clone(container) },
                Role::Sandbox => Answer::Sandbox { pod },
            };
        }
        if let Some(record) = uid.and_then(|uid| self.pods.get_mut(uid)) {
            record.asked = now;
            let is_sandbox = id.is_some_and(|id| record.must_be_sandbox(id, now));
            let pod = Arc::clone(record.merged());
            return if is_sandbox { Answer::Sandbox { pod } } else { Answer::Pod { pod } };
        }
        match id.and_then(|id| self.plain.get_mut(&id)) {
            Some(plain) => {
                plain.asked = now;
                Answer::Plain { name: Arc::clone(&plain.name) }
            }
            None => Answer::Unknown,
        }
    }

    /// Forgets pods that have been gone for the grace period, and ids that are no longer asked for.
    pub(super) fn expire(&mut self, now: Instant) {
        if self.expired.is_some_and(|expired| now.duration_since(expired) < EXPIRE_EVERY) {
            return;
        }
        self.expired = Some(now);
        let grace = self.grace;
        self.pods.retain(|_, record| match record.gone() {
            Some(gone) => now.duration_since(gone) < grace,
            None => !record.is_found_only() || now.duration_since(record.asked) < KEPT_UNASKED,
        });
        let pods = &self.pods;
        self.containers.retain(|_, claim| {
            pods.contains_key(&claim.key) && claim.gone.is_none_or(|gone| now.duration_since(gone) < grace)
        });
        self.plain.retain(|_, plain| now.duration_since(plain.asked) < KEPT_UNASKED);
    }

    fn sync(&mut self, source: SourceKind, pods: Vec<Arc<Pod>>, now: Instant) {
        let listed: HashSet<Arc<str>> = pods.iter().map(|pod| Arc::clone(pod.key())).collect();
        let gone = |(key, record): (&Arc<str>, &Record)| {
            (record.view(source).is_some() && !listed.contains(key)).then(|| Arc::clone(key))
        };
        let gone: Vec<_> = self.pods.iter().filter_map(gone).collect();
        for key in gone {
            self.remove(&key, source, now);
        }
        let mut seen = HashSet::new();
        for pod in pods {
            // Two pods with one key: a mirror and one that pretends to be it. The first stays, as it does
            // between lists.
            if seen.insert(Arc::clone(pod.key())) {
                let key = Arc::clone(pod.key());
                if self.view_uid(&key, source).is_some_and(|uid| *uid != pod.uid) {
                    self.remove(&key, source, now);
                }
                self.set(source, pod, now);
            }
        }
    }

    fn view_uid(&self, key: &str, source: SourceKind) -> Option<&Arc<str>> {
        Some(&self.pods.get(key)?.view(source)?.uid)
    }

    fn set(&mut self, source: SourceKind, pod: Arc<Pod>, now: Instant) {
        let key = Arc::clone(pod.key());
        if self.view_uid(&key, source).is_some_and(|uid| *uid != pod.uid) {
            return;
        }
        if !self.pods.contains_key(&key) && !self.has_room(now) {
            return;
        }
        let record = self.pods.entry(Arc::clone(&key)).or_insert_with(|| Record::new(now));
        record.set(source, pod);
        self.claim(&key, now);
    }

    fn add(&mut self, source: SourceKind, part: &Pod, now: Instant) {
        let view = self.pods.get(part.key()).and_then(|record| record.view(source));
        let mut pod = view.map_or_else(|| part.without_containers(), |view| Pod::clone(view));
        pod.add_unknown_of(part);
        // Parts never say what has gone. In a pod that keeps restarting, the oldest ids have.
        pod.keep_newest(IDS_MAX);
        self.set(source, Arc::new(pod), now);
    }

    /// The source no longer knows the pod. Less trustworthy sources are not asked all the time and have not
    /// noticed yet.
    fn remove(&mut self, key: &str, source: SourceKind, now: Instant) {
        let Some((key, _)) = self.pods.get_key_value(key) else { return };
        let key = Arc::clone(key);
        if let Some(record) = self.pods.get_mut(&key) {
            record.remove_from(source, now);
        }
        self.claim(&key, now);
    }

    /// Makes the claims to containers match what is now known of a pod.
    fn claim(&mut self, key: &Arc<str>, now: Instant) {
        let Some(record) = self.pods.get_mut(key) else { return };
        let (claimed, given_up) = record.merge();
        for id in given_up {
            if let Some(claim) = self.containers.get_mut(&id).filter(|claim| claim.key == *key) {
                claim.gone.get_or_insert(now);
            }
        }
        for (id, role) in claimed {
            if self.containers.len() >= CONTAINERS_MAX && !self.containers.contains_key(&id) {
                self.say_full();
                return;
            }
            self.containers.insert(id, Claim { key: Arc::clone(key), role, gone: None });
        }
    }

    fn has_room(&mut self, now: Instant) -> bool {
        if self.pods.len() >= PODS_MAX {
            self.expire(now);
        }
        let has_room = self.pods.len() < PODS_MAX;
        if !has_room {
            self.say_full();
        }
        has_room
    }

    fn say_full(&mut self) {
        if !std::mem::replace(&mut self.is_full, true) {
            warn!(
                pods = self.pods.len(),
                containers = self.containers.len(),
                "The pod table is full; further pods are ignored."
            );
        }
    }
}

#[cfg(test)]
mod tests;
