//! The cgroups that exist or did until recently, with their parents and names. Events and walks feed it; it
//! does no I/O.
//!
//! Only the last path component of each cgroup is kept, because containers decide how long paths become.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

use sysprobe_common::cgroup::ROOT_ID;

use super::event::{Change, Event};
use super::name::{Name, name_of};
use super::walk::Walk;

/// How long a removed cgroup is kept for the last accounting of its tasks. A thread leaves its CPU for the
/// last time shortly after the kernel lets its cgroup be removed.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// A cgroup that was created less than this ago may not be visible to a walk yet.
const UNSEEN_AT_FIRST: Duration = Duration::from_secs(1);
/// Maximum number of removed cgroups that are remembered without being in the tree.
const REMOVED_MAX: usize = 16_384;
/// The kernel accepts paths of 4096 bytes, including the hierarchy's mount point and the name of a file. A
/// cgroup with a longer path cannot be read, so it counts as a part of the nearest ancestor with a shorter
/// one.
const PATH_MAX: usize = 4096 - 512;

#[derive(Debug)]
pub struct Cgroup {
    parent: u64,
    /// Its name in its parent; empty for the root.
    own: Box<str>,
    /// Length of its path.
    length: usize,
    pub name: Name,
    pub origin: Origin,
    /// When the agent learned of it: at its creation, or at the walk that found it.
    pub since: Instant,
    died: Option<Instant>,
    /// Whether it has or had cgroups below it.
    pub is_parent: bool,
    /// The OOM kills in it and below it when it was removed, if the event tells.
    pub oom_kills: Option<u64>,
}

/// Which part of a cgroup's lifetime totals is new to the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The cgroup may be older than the agent: only the growth of its totals since the first reading.
    Older,
    /// The cgroup was created while the agent ran: everything.
    Born,
}

#[derive(Debug, Default)]
pub struct Tree {
    cgroups: HashMap<u64, Cgroup>,
    /// The highest id known after the last walk. `None` before the first walk, and after one that could not
    /// see everything.
    newest: Option<u64>,
    /// Where a part of the hierarchy cannot be seen: the removed cgroups that are not in the tree, and when
    /// they were removed.
    removed: HashMap<u64, Instant>,
    /// The same in the order in which they were noted.
    removals: VecDeque<u64>,
    /// Cgroups added since `take_fresh` was last called.
    fresh: Vec<u64>,
    born: u64,
    died: u64,
    /// How many cgroups had a path longer than `PATH_MAX`.
    too_long: u64,
}

impl Cgroup {
    /// A cgroup called `own` in its parent, whose path has this length.
    fn new(
        parent: u64,
        own: &str,
        (length, name): (usize, Name),
        (origin, since): (Origin, Instant),
    ) -> Self {
        let own = own.into();
        Self { parent, own, length, name, origin, since, died: None, is_parent: false, oom_kills: None }
    }

    /// A cgroup that is in no tree.
    #[cfg(test)]
    pub(crate) fn of_path(path: &str, since: Instant) -> Self {
        let own = path.rsplit('/').next().unwrap_or_default();
        Self::new(0, own, (path.len(), name_of(path)), (Origin::Born, since))
    }

    #[must_use]
    pub fn is_root(&self) -> bool {
        self.own.is_empty()
    }
}

impl Tree {
    /// Takes over the result of a walk. A known cgroup that the walk did not find was removed without an
    /// event, unless the walk could not see everything.
    ///
    /// Ids in one hierarchy only grow (`kernfs_node.id`: the lower half is cyclic, and each wrap increments
    /// the upper one). So a cgroup with a higher id than all that were known after the previous walk is
    /// younger than that walk, and its event was lost. One with a lower id was missed then, or has been
    /// forgotten, and how much of its totals is new is unknown.
    ///
    /// Returns `false` if another walk has to decide about a new cgroup: the kernel reports a creation before
    /// its directory can be seen (`cgroup_mkdir` runs before `kernfs_activate`).
    pub fn reconcile(&mut self, walk: Walk, now: Instant) -> bool {
        let present: HashSet<u64> = walk.found.iter().map(|found| found.id).collect();
        let is_complete = walk.unreadable == 0;
        let newest = present.iter().chain(self.cgroups.keys()).chain(&self.newest).max().copied();
        let before = std::mem::replace(&mut self.newest, newest.filter(|_| is_complete));
        let mut is_sure = true;
        if is_complete {
            let missing = self.cgroups.iter_mut().filter(|(id, _)| !present.contains(id));
            for cgroup in missing.map(|(_, cgroup)| cgroup).filter(|cgroup| cgroup.died.is_none()) {
                if now.duration_since(cgroup.since) < UNSEEN_AT_FIRST {
                    is_sure = false;
                } else {
                    cgroup.died = Some(now);
                }
            }
        }
        for found in walk.found {
            let is_younger = before.is_some_and(|newest| found.id > newest);
            let origin = if is_younger { Origin::Born } else { Origin::Older };
            if found.name.is_empty() {
                self.insert_root(found.id, now);
            } else {
                // Parents come before their children.
                self.place(found.id, found.parent, &found.name, (origin, now));
            }
        }
        is_sure
    }

    /// Applies one event. Returns `false` if the parent is unknown, and with it the path: a walk is due.
    #[must_use]
    pub fn apply(&mut self, event: &Event, now: Instant) -> bool {
        match event.change {
            Change::Born => {
                self.born += 1;
                self.place(event.id, event.parent, &event.name, (Origin::Born, now))
            }
            Change::Died { oom_kills } => {
                self.died += 1;
                if let Some(cgroup) = self.cgroups.get_mut(&event.id) {
                    cgroup.died.get_or_insert(now);
                    cgroup.oom_kills = oom_kills;
                } else {
                    self.note_removed(event.id, now);
                }
                true
            }
            Change::Renamed => self.place(event.id, event.parent, &event.name, (Origin::Older, now)),
        }
    }

    fn note_removed(&mut self, id: u64, now: Instant) {
        if self.is_whole() {
            return;
        }
        if self.removed.insert(id, now).is_none() {
            self.removals.push_back(id);
        }
        if self.removals.len() > REMOVED_MAX
            && let Some(oldest) = self.removals.pop_front()
        {
            self.removed.remove(&oldest);
        }
    }

    fn insert_root(&mut self, id: u64, now: Instant) {
        let root = || Cgroup::new(0, "", (0, name_of("/")), (Origin::Older, now));
        self.cgroups.entry(id).or_insert_with(root);
    }

    /// Returns `false` if the parent is unknown. A cgroup that is known keeps its origin.
    fn place(&mut self, id: u64, parent: u64, own: &str, (origin, now): (Origin, Instant)) -> bool {
        let Some(above) = self.cgroups.get_mut(&parent) else { return false };
        above.is_parent = true;
        self.removed.remove(&id);
        if let Some(known) = self.cgroups.get_mut(&id) {
            // An event or a walk has seen it, so it exists.
            (known.died, known.oom_kills) = (None, None);
            if known.parent != parent || *known.own != *own {
                (known.parent, known.own) = (parent, own.into());
                self.name_anew(id);
            }
        } else if let Some((length, name)) = self.called(parent, own) {
            self.too_long += u64::from(length > PATH_MAX);
            self.cgroups.insert(id, Cgroup::new(parent, own, (length, name), (origin, now)));
            self.fresh.push(id);
        }
        true
    }

    /// The length of the path, and the name, of a cgroup called `own` in `parent`; `None` if the parent is
    /// unknown.
    fn called(&self, parent: u64, own: &str) -> Option<(usize, Name)> {
        let above = self.cgroups.get(&parent)?;
        let length = above.length + 1 + own.len();
        let path = if length > PATH_MAX { None } else { self.path_of(above) };
        let name = match path {
            Some(path) => name_of(&format!("{}/{own}", path.trim_end_matches('/'))),
            None => Name { is_top: false, ..above.name.clone() },
        };
        Some((length, name))
    }

    /// Renews the names of a renamed cgroup and all its descendants.
    fn name_anew(&mut self, id: u64) {
        let mut children: HashMap<u64, Vec<u64>> = HashMap::new();
        for (child, cgroup) in &self.cgroups {
            children.entry(cgroup.parent).or_default().push(*child);
        }
        let mut pending = vec![id];
        while let Some(id) = pending.pop() {
            // Visits each cgroup once, even if wrong events made a cycle.
            pending.extend(children.remove(&id).unwrap_or_default());
            let Some(cgroup) = self.cgroups.get(&id) else { continue };
            let Some((length, name)) = self.called(cgroup.parent, &cgroup.own) else { continue };
            if let Some(cgroup) = self.cgroups.get_mut(&id) {
                (cgroup.length, cgroup.name) = (length, name);
            }
        }
    }

    /// The path from the hierarchy's root, which itself is `/`. `None` if the path is too long or a part of
    /// it is no longer known.
    #[must_use]
    pub fn path(&self, id: u64) -> Option<String> {
        self.path_of(self.cgroups.get(&id)?)
    }

    fn path_of(&self, cgroup: &Cgroup) -> Option<String> {
        let mut names = Vec::new();
        let mut at = cgroup;
        while !at.is_root() {
            names.push(&*at.own);
            // Each takes at least two bytes.
            if cgroup.length > PATH_MAX || names.len() > PATH_MAX / 2 {
                return None;
            }
            at = self.cgroups.get(&at.parent)?;
        }
        names.reverse();
        Some(format!("/{}", names.join("/")))
    }

    #[must_use]
    pub fn get(&self, id: u64) -> Option<&Cgroup> {
        self.cgroups.get(&id)
    }

    /// Takes a removed cgroup out of the tree.
    pub fn forget(&mut self, id: u64) {
        if let Some(died) = self.cgroups.remove(&id).and_then(|cgroup| cgroup.died) {
            self.note_removed(id, died);
        }
    }

    /// The cgroups that are new since the last call.
    pub fn take_fresh(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.fresh)
    }

    pub fn alive(&self) -> impl Iterator<Item = (u64, &Cgroup)> {
        self.cgroups.iter().filter(|(_, cgroup)| cgroup.died.is_none()).map(|(id, cgroup)| (*id, cgroup))
    }

    /// Removed cgroups whose last tasks have certainly left their CPUs.
    #[must_use]
    pub fn departed(&self, now: Instant) -> Vec<u64> {
        let departed = |cgroup: &Cgroup| cgroup.died.is_some_and(|died| is_long_ago(died, now));
        self.cgroups.iter().filter(|(_, cgroup)| departed(cgroup)).map(|(id, _)| *id).collect()
    }

    /// Whether a cgroup that is not in the tree is known to have been removed.
    #[must_use]
    pub fn is_removed(&self, id: u64) -> bool {
        self.removed.contains_key(&id)
    }

    /// Whether its last tasks have certainly left their CPUs as well.
    #[must_use]
    pub fn has_departed(&self, id: u64, now: Instant) -> bool {
        self.removed.get(&id).is_some_and(|died| is_long_ago(*died, now))
    }

    /// Whether the root is that of the whole hierarchy: otherwise there are cgroups that no walk can find.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.cgroups.get(&ROOT_ID).is_some_and(Cgroup::is_root)
    }

    /// Cgroups that are the parent of a living cgroup.
    #[must_use]
    pub fn parents(&self) -> HashSet<u64> {
        self.alive().map(|(_, cgroup)| cgroup.parent).collect()
    }

    /// Creations and removals reported by events since the start.
    #[must_use]
    pub const fn counts(&self) -> (u64, u64) {
        (self.born, self.died)
    }

    /// How many cgroups count as a part of an ancestor because their path is too long.
    #[must_use]
    pub const fn too_long(&self) -> u64 {
        self.too_long
    }
}

/// Whether the last tasks of a cgroup that was removed then have certainly left their CPUs.
fn is_long_ago(died: Instant, now: Instant) -> bool {
    now.duration_since(died) >= LAST_WORDS
}

#[cfg(test)]
mod tests;
