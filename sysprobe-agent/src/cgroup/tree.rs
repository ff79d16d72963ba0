//! The cgroups that exist, or did until a moment ago: id to path and name. Fed by events and walks; it does no I/O.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use super::events::{Change, Event};
use super::name::{Name, name_of};
use super::walk::Walk;

/// How long after its death a cgroup is kept for what its last tasks still book: a thread leaves its CPU for the last
/// time shortly after the kernel has let its cgroup be removed.
const LAST_WORDS: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub struct Cgroup {
    pub path: String,
    pub name: Name,
    died: Option<Instant>,
}

#[derive(Debug, Default)]
pub struct Tree {
    cgroups: HashMap<u64, Cgroup>,
    /// Those that were added since somebody asked.
    fresh: Vec<u64>,
    born: u64,
    died: u64,
}

impl Tree {
    /// Takes over what a walk found; what is known but was not found has died without our hearing of it, unless the
    /// walk could not see everything.
    pub fn reconcile(&mut self, walk: Walk, now: Instant) {
        let present: HashSet<u64> = walk.found.iter().map(|found| found.id).collect();
        if walk.unreadable == 0 {
            for (_, cgroup) in self.cgroups.iter_mut().filter(|(id, _)| !present.contains(id)) {
                cgroup.died.get_or_insert(now);
            }
        }
        for found in walk.found {
            self.insert(found.id, found.path);
        }
    }

    /// Applies one event. The answer is `false` if its path cannot be told, because the parent is not known: a walk is
    /// due.
    #[must_use]
    pub fn apply(&mut self, event: &Event, now: Instant) -> bool {
        match event.change {
            Change::Born => {
                self.born += 1;
                self.place(event)
            }
            Change::Died => {
                self.died += 1;
                if let Some(cgroup) = self.cgroups.get_mut(&event.id) {
                    cgroup.died.get_or_insert(now);
                }
                true
            }
            Change::Renamed => {
                let old = self.cgroups.get(&event.id).map(|cgroup| cgroup.path.clone());
                let placed = self.place(event);
                if let (Some(old), Some(new)) = (old, self.cgroups.get(&event.id)) {
                    let new = new.path.clone();
                    self.move_descendants(&old, &new);
                }
                placed
            }
        }
    }

    fn place(&mut self, event: &Event) -> bool {
        let Some(parent) = self.cgroups.get(&event.parent) else { return false };
        let path = format!("{}/{}", parent.path.trim_end_matches('/'), event.name);
        self.insert(event.id, path);
        true
    }

    fn move_descendants(&mut self, old: &str, new: &str) {
        for cgroup in self.cgroups.values_mut() {
            let below = cgroup.path.strip_prefix(old).filter(|rest| rest.starts_with('/'));
            if let Some(path) = below.map(|rest| format!("{new}{rest}")) {
                cgroup.name = name_of(&path);
                cgroup.path = path;
            }
        }
    }

    fn insert(&mut self, id: u64, path: String) {
        let Some(known) = self.cgroups.get_mut(&id) else {
            let name = name_of(&path);
            self.cgroups.insert(id, Cgroup { path, name, died: None });
            self.fresh.push(id);
            return;
        };
        if known.path != path {
            known.name = name_of(&path);
            known.path = path;
        }
        // Whoever sees it, by event or walk, does so while it is there.
        known.died = None;
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

    /// The paths that are some living cgroup's parent.
    #[must_use]
    pub fn parents(&self) -> HashSet<&str> {
        self.alive().filter_map(|(_, cgroup)| parent(&cgroup.path)).collect()
    }

    /// Births and deaths heard of since the start.
    #[must_use]
    pub const fn counts(&self) -> (u64, u64) {
        (self.born, self.died)
    }
}

fn parent(path: &str) -> Option<&str> {
    let (parent, name) = path.rsplit_once('/')?;
    if name.is_empty() { None } else { Some(if parent.is_empty() { "/" } else { parent }) }
}

#[cfg(test)]
mod tests {
    use sysprobe_common::cgroup::ROOT_ID;

    use super::super::walk::Found;
    use super::*;

    /// Events of cgroups in the root or one below it, which has the id of its first letter.
    fn event(id: u64, change: Change, path: &str) -> Event {
        let (parent, name) = path.rsplit_once('/').expect("absolute");
        let parent = parent.rsplit_once('/').map_or(ROOT_ID, |(_, name)| name.as_bytes()[0].into());
        Event { id, change, parent, name: name.into() }
    }

    /// Without the root.
    fn alive(tree: &Tree) -> Vec<u64> {
        let mut alive: Vec<_> = tree.alive().map(|(id, _)| id).filter(|id| *id != ROOT_ID).collect();
        alive.sort_unstable();
        alive
    }

    fn tree() -> Tree {
        let mut tree = Tree::default();
        tree.reconcile(walk(&[(ROOT_ID, "/")]), Instant::now());
        tree
    }

    fn walk(found: &[(u64, &str)]) -> Walk {
        let found = found.iter().map(|(id, path)| Found { id: *id, path: (*path).into() });
        Walk { found: found.collect(), unreadable: 0 }
    }

    fn apply(tree: &mut Tree, events: &[(u64, Change, &str)], now: Instant) {
        for (id, change, path) in events {
            assert!(tree.apply(&event(*id, *change, path), now), "no walk is due");
        }
    }

    #[test]
    fn a_dead_cgroup_stays_for_its_last_words_and_then_goes() {
        let start = Instant::now();
        let mut tree = tree();
        apply(&mut tree, &[(5, Change::Born, "/a"), (5, Change::Died, "/a")], start);
        assert!(alive(&tree).is_empty());
        assert!(tree.departed(start).is_empty());
        assert!(tree.get(5).is_some());
        assert_eq!(tree.departed(start + LAST_WORDS), [5]);
        assert_eq!(tree.counts(), (1, 1));
    }

    #[test]
    fn a_walk_finds_births_and_deaths_that_were_missed() {
        let start = Instant::now();
        let mut tree = tree();
        apply(&mut tree, &[(4, Change::Born, "/gone"), (2, Change::Born, "/stays")], start);
        tree.reconcile(walk(&[(ROOT_ID, "/"), (2, "/stays"), (3, "/new")]), start);
        assert_eq!(tree.departed(start + LAST_WORDS), [4]);
        assert_eq!(alive(&tree), [2, 3]);
    }

    #[test]
    fn an_event_after_the_walk_that_saw_it_changes_nothing() {
        let start = Instant::now();
        let mut tree = tree();
        tree.reconcile(walk(&[(ROOT_ID, "/"), (2, "/a")]), start);
        apply(&mut tree, &[(2, Change::Born, "/a")], start);
        assert_eq!(alive(&tree).len(), 1);
    }

    #[test]
    fn a_rename_moves_the_whole_branch() {
        let start = Instant::now();
        let mut tree = tree();
        let old = u64::from(b'o');
        apply(
            &mut tree,
            &[(old, Change::Born, "/old"), (2, Change::Born, "/old/a"), (3, Change::Born, "/older")],
            start,
        );
        apply(&mut tree, &[(old, Change::Renamed, "/new")], start);
        let name = |id| tree.get(id).map(|cgroup| cgroup.name.name.as_str());
        assert_eq!((name(old), name(2), name(3)), (Some("/new"), Some("/new/a"), Some("/older")));
    }

    #[test]
    fn a_child_of_nobody_asks_for_a_walk() {
        let mut tree = tree();
        assert!(!tree.apply(&event(2, Change::Born, "/unheard/of"), Instant::now()));
        assert_eq!(tree.counts(), (1, 0));
    }

    #[test]
    fn a_walk_that_could_not_see_everything_buries_nobody() {
        let start = Instant::now();
        let mut tree = tree();
        apply(&mut tree, &[(4, Change::Born, "/hidden")], start);
        tree.reconcile(Walk { unreadable: 1, ..walk(&[]) }, start);
        assert_eq!(alive(&tree).len(), 1);
        tree.reconcile(walk(&[]), start);
        tree.reconcile(walk(&[(4, "/hidden")]), start);
        assert_eq!(alive(&tree).len(), 1, "seen again, so it was not dead");
    }

    #[test]
    fn parents_are_those_of_the_living() {
        let start = Instant::now();
        let mut tree = tree();
        apply(
            &mut tree,
            &[(97, Change::Born, "/a"), (98, Change::Born, "/a/b"), (99, Change::Born, "/a/b/c")],
            start,
        );
        apply(&mut tree, &[(99, Change::Died, "/a/b/c")], start);
        let mut parents: Vec<_> = tree.parents().into_iter().collect();
        parents.sort_unstable();
        assert_eq!(parents, ["/", "/a"]);
    }
}
