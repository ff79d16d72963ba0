//! Keeps the cgroup tree up to date: a walk at startup, then the kernel's events, and another walk whenever
//! an event was lost or cannot be placed. Without the `cgroup` domain, periodic walks are all there is.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use tracing::{debug, warn};

use crate::bpf::{Loaded, Running as _};
use crate::cgroup::tree::Tree;
use crate::cgroup::walk::walk;
use crate::domain::cgroup::{Counts, Events};
use crate::host;
use crate::snapshot::ScanSample;

/// Interval between walks if there are no events.
const WALK_WITHOUT_EVENTS: Duration = Duration::from_secs(5);
/// Minimum interval between walks if an event could not be placed.
const WALK_INTERVAL_MIN: Duration = Duration::from_secs(1);
/// Interval between walks as a safeguard while events arrive.
const AUDIT: Duration = Duration::from_secs(600);

pub(super) struct CgroupTracker {
    root: PathBuf,
    events: Option<Events>,
    tree: Tree,
    /// Lost events that a later walk has compensated.
    made_good: u64,
    walked: Instant,
    /// Whether something was reported that only a walk can place.
    stale: bool,
    complete: bool,
    malformed: u64,
    /// The number of walks, the number of incomplete ones, and the duration of the last one.
    walks: u64,
    incomplete: u64,
    walk_took: Duration,
}

impl CgroupTracker {
    pub(super) fn start(root: PathBuf, events: Option<Events>) -> anyhow::Result<Self> {
        let mut tracker = Self {
            root,
            events,
            tree: Tree::default(),
            made_good: 0,
            walked: Instant::now(),
            stale: false,
            complete: false,
            malformed: 0,
            walks: 0,
            incomplete: 0,
            walk_took: Duration::ZERO,
        };
        tracker.walk(Instant::now()).with_context(|| format!("walking {}", tracker.root.display()))?;
        Ok(tracker)
    }

    pub(super) fn update(&mut self, now: Instant) {
        self.drain(now);
        let lost = self.counted().ring_full;
        self.stale |= lost != self.made_good;
        let pause = match &self.events {
            _ if self.stale => WALK_INTERVAL_MIN,
            Some(_) => AUDIT,
            None => WALK_WITHOUT_EVENTS,
        };
        if now.duration_since(self.walked) < pause {
            return;
        }
        match self.walk(now) {
            Ok(is_sure) => (self.made_good, self.stale) = (lost, !is_sure),
            Err(error) => {
                self.stale = true;
                warn!(
                    error = format!("{error:#}"),
                    root = %self.root.display(),
                    "The cgroup hierarchy could not be read."
                );
            }
        }
    }

    fn drain(&mut self, now: Instant) {
        let Some(events) = &mut self.events else { return };
        while let Some(event) = events.pop() {
            match event {
                Ok(event) => {
                    debug!(?event, "Cgroup event.");
                    self.stale |= !self.tree.apply(&event, now);
                }
                Err(error) => {
                    self.malformed += 1;
                    self.stale = true;
                    warn!(%error, "A malformed cgroup event was skipped.");
                }
            }
        }
    }

    /// Whether no other walk is needed.
    fn walk(&mut self, now: Instant) -> anyhow::Result<bool> {
        let begun = Instant::now();
        self.walked = now;
        self.walks += 1;
        let walk = walk(&self.root).inspect_err(|_| {
            self.complete = false;
            self.incomplete += 1;
        })?;
        if walk.unreadable > 0 {
            warn!(count = walk.unreadable, "Some cgroup directories could not be read.");
        }
        self.complete = walk.unreadable == 0;
        let is_sure = self.tree.reconcile(walk, now);
        self.incomplete += u64::from(!self.complete);
        self.walk_took = begun.elapsed();
        Ok(is_sure)
    }

    pub(super) fn wake_up(&self) -> std::io::Result<Option<OwnedFd>> {
        self.events.as_ref().map(Events::wake_up).transpose()
    }

    /// The event counts of the kernel side.
    pub(super) fn counted(&self) -> Counts {
        self.events.as_ref().map(Events::counts).unwrap_or_default()
    }

    /// Events that could not be decoded.
    pub(super) const fn malformed(&self) -> u64 {
        self.malformed
    }

    /// Whether a cgroup is taken to exist in a part of the hierarchy that the agent does not see. On a node
    /// that is itself a container, those are the host's cgroups.
    pub(super) fn is_elsewhere(&self, id: u64) -> bool {
        let is_sure = self.complete && !self.stale;
        is_sure && !self.tree.is_whole() && !self.is_in_tree(id) && !self.tree.is_removed(id)
    }

    /// Whether an unknown cgroup was deleted, and its last tasks have left their CPUs.
    pub(super) fn has_departed(&self, id: u64, now: Instant) -> bool {
        if self.tree.is_whole() {
            self.complete && !self.is_in_tree(id)
        } else {
            self.tree.has_departed(id, now)
        }
    }

    /// Whether a cgroup is gone: it is not in the tree any more, or it was never there and has been deleted.
    pub(super) fn has_gone(&self, id: u64) -> bool {
        if self.tree.is_whole() { !self.is_in_tree(id) } else { self.tree.is_removed(id) }
    }

    /// Whether it is worthwhile to walk the tree for an unknown cgroup.
    pub(super) fn may_be_found(&self, id: u64) -> bool {
        let is_ruled_out = self.events.is_some() && self.is_elsewhere(id);
        !is_ruled_out && !self.is_in_tree(id) && !self.tree.is_removed(id)
    }

    fn is_in_tree(&self, id: u64) -> bool {
        self.tree.get(id).is_some()
    }

    pub(super) fn walks(&self) -> ScanSample {
        ScanSample {
            scan: "cgroups".into(),
            passes: self.walks,
            truncated: self.incomplete,
            last_ns: host::nanoseconds(self.walk_took),
            // Each directory is opened and read by system calls of its own.
            longest_part_ns: 0,
        }
    }

    /// Requests a walk, because a domain met a cgroup that is not in the tree. The rate of walks is limited,
    /// to spare the node.
    pub(super) fn look_again(&mut self, now: Instant) {
        self.stale = true;
        self.complete = false;
        self.update(now);
    }

    pub(super) fn forget(&mut self, id: u64) {
        self.tree.forget(id);
    }

    pub(super) const fn tree(&self) -> &Tree {
        &self.tree
    }

    /// The cgroups that were added since the last call.
    pub(super) fn take_fresh(&mut self) -> Vec<u64> {
        self.tree.take_fresh()
    }

    pub(super) fn loaded(&self) -> Option<&Loaded> {
        self.events.as_ref().map(Events::loaded)
    }
}
