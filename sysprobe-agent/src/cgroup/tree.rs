//! The cgroups that exist, or did until a moment ago: who is in whom, and what each is called. Fed by events
//! and walks; it does no I/O.
//!
//! Of each only its own name is kept: containers decide how long paths become.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use super::events::{Change, Event};
use super::name::{Name, name_of};
use super::walk::Walk;

/// How long after its death a cgroup is kept for what its last tasks still book: a thread leaves its CPU for
/// the last time shortly after the kernel has let its cgroup be removed.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// The system takes 4096 bytes, of which the hierarchy's mount point and a file's name need some. What has a
/// longer path cannot be looked into, and is a part of the nearest cgroup above it that can.
const PATH_MAX: usize = 4096 - 512;

#[derive(Debug)]
pub struct Cgroup {
    parent: u64,
    /// What its parent calls it; nothing for the root.
    own: Box<str>,
    /// Of its path.
    length: usize,
    pub name: Name,
    pub origin: Origin,
    /// When the agent got to know it: at its birth, or at the walk that found it.
    pub since: Instant,
    died: Option<Instant>,
}

/// Which part of a cgroup's lifetime totals is new to the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The cgroup may be older than the agent: only what its totals grow by from the first reading on.
    Older,
    /// The cgroup was made while the agent ran: everything.
    Born,
}

#[derive(Debug, Default)]
pub struct Tree {
    cgroups: HashMap<u64, Cgroup>,
    /// The highest id that was known after the last walk; `None` before the first one and after one that
    /// could not see everything.
    newest: Option<u64>,
    /// Those that were added since they were last taken.
    fresh: Vec<u64>,
    born: u64,
    died: u64,
    /// How many had a path that is too long.
    too_long: u64,
}

impl Cgroup {
    /// One that is in no tree.
    #[cfg(test)]
    pub(crate) fn of_path(path: &str, since: Instant) -> Self {
        let own = path.rsplit('/').next().unwrap_or_default().into();
        let (name, origin) = (name_of(path), Origin::Born);
        Self { parent: 0, own, length: path.len(), name, origin, since, died: None }
    }

    #[must_use]
    pub fn is_root(&self) -> bool {
        self.own.is_empty()
    }
}

impl Tree {
    /// Takes over what a walk found; what is known but was not found has died without our hearing of it,
    /// unless the walk could not see everything.
    ///
    /// Ids of one hierarchy only ever grow (`kernfs_node.id`: the lower half is cyclic, and each wrap adds to
    /// the upper one). So what has a higher id than everything that was known after the walk before is
    /// younger than that walk: its birth went unheard. What has a lower one was missed then, or given up: how
    /// much of it is new cannot be told.
    pub fn reconcile(&mut self, walk: Walk, now: Instant) {
        let present: HashSet<u64> = walk.found.iter().map(|found| found.id).collect();
        let is_complete = walk.unreadable == 0;
        let newest = present.iter().chain(self.cgroups.keys()).chain(&self.newest).max().copied();
        let before = std::mem::replace(&mut self.newest, newest.filter(|_| is_complete));
        if is_complete {
            for (_, cgroup) in self.cgroups.iter_mut().filter(|(id, _)| !present.contains(id)) {
                cgroup.died.get_or_insert(now);
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
    }

    /// Applies one event. The answer is `false` if its path cannot be told, because the parent is not known:
    /// a walk is due.
    #[must_use]
    pub fn apply(&mut self, event: &Event, now: Instant) -> bool {
        match event.change {
            Change::Born => {
                self.born += 1;
                self.place(event.id, event.parent, &event.name, (Origin::Born, now))
            }
            Change::Died => {
                self.died += 1;
                if let Some(cgroup) = self.cgroups.get_mut(&event.id) {
                    cgroup.died.get_or_insert(now);
                }
                true
            }
            Change::Renamed => self.place(event.id, event.parent, &event.name, (Origin::Older, now)),
        }
    }

    fn insert_root(&mut self, id: u64, now: Instant) {
        let root = || Cgroup {
            parent: 0,
            own: "".into(),
            length: 0,
            name: name_of("/"),
            origin: Origin::Older,
            since: now,
            died: None,
        };
        self.cgroups.entry(id).or_insert_with(root);
    }

    /// `false` if its parent is not known. The origin of one that is known stays what it was.
    fn place(&mut self, id: u64, parent: u64, own: &str, (origin, now): (Origin, Instant)) -> bool {
        if !self.cgroups.contains_key(&parent) {
            return false;
        }
        if let Some(known) = self.cgroups.get_mut(&id) {
            // An event or a walk has seen it, so it is there.
            known.died = None;
            if known.parent != parent || *known.own != *own {
                (known.parent, known.own) = (parent, own.into());
                self.name_anew(id);
            }
        } else if let Some((length, name)) = self.called(parent, own) {
            self.too_long += u64::from(length > PATH_MAX);
            let own = own.into();
            self.cgroups.insert(id, Cgroup { parent, own, length, name, origin, since: now, died: None });
            self.fresh.push(id);
        }
        true
    }

    /// How long the path of a cgroup is that is called `own` in another, and what it is known by; `None` if
    /// the other is not known.
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

    /// Of a cgroup that was renamed, and all below it.
    fn name_anew(&mut self, id: u64) {
        let mut children: HashMap<u64, Vec<u64>> = HashMap::new();
        for (child, cgroup) in &self.cgroups {
            children.entry(cgroup.parent).or_default().push(*child);
        }
        let mut pending = vec![id];
        while let Some(id) = pending.pop() {
            // Each once, whatever events said.
            pending.extend(children.remove(&id).unwrap_or_default());
            let Some(cgroup) = self.cgroups.get(&id) else { continue };
            let Some((length, name)) = self.called(cgroup.parent, &cgroup.own) else { continue };
            if let Some(cgroup) = self.cgroups.get_mut(&id) {
                (cgroup.length, cgroup.name) = (length, name);
            }
        }
    }

    /// From the hierarchy's root, which itself is `/`; `None` if it is too long, or a part of it is not known
    /// any more.
    #[must_use]
    pub fn path(&self, id: u64) -> Option<String> {
        self.path_of(self.cgroups.get(&id)?)
    }

    fn path_of(&self, cgroup: &Cgroup) -> Option<String> {
        let mut names = Vec::new();
        let mut at = cgroup;
        while !at.is_root() {
            names.push(&*at.own);
            // Each takes two bytes at least.
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

    pub fn forget(&mut self, id: u64) {
        self.cgroups.remove(&id);
    }

    /// The cgroups that are new since the last call.
    pub fn take_fresh(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.fresh)
    }

    pub fn alive(&self) -> impl Iterator<Item = (u64, &Cgroup)> {
        self.cgroups.iter().filter(|(_, cgroup)| cgroup.died.is_none()).map(|(id, cgroup)| (*id, cgroup))
    }

    /// The dead whose last tasks have certainly left their CPUs.
    #[must_use]
    pub fn departed(&self, now: Instant) -> Vec<u64> {
        let departed =
            |cgroup: &Cgroup| cgroup.died.is_some_and(|died| now.duration_since(died) >= LAST_WORDS);
        self.cgroups.iter().filter(|(_, cgroup)| departed(cgroup)).map(|(id, _)| *id).collect()
    }

    /// Those that some living cgroup is in.
    #[must_use]
    pub fn parents(&self) -> HashSet<u64> {
        self.alive().map(|(_, cgroup)| cgroup.parent).collect()
    }

    /// Births and deaths heard of since the start.
    #[must_use]
    pub const fn counts(&self) -> (u64, u64) {
        (self.born, self.died)
    }

    /// How many cgroups were made a part of the one above them, for their path is too long.
    #[must_use]
    pub const fn too_long(&self) -> u64 {
        self.too_long
    }
}

#[cfg(test)]
mod tests;
