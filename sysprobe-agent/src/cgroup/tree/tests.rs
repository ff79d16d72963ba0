//! Creations, removals, renames and walks, and the limits of their cost.

use sysprobe_common::cgroup::ROOT_ID;

use super::super::walk::Found;
use super::*;
use crate::heap_meter;

const DIED: Change = Change::Died { oom_kills: None };

/// An event for a cgroup in the root or one level below. The parent's id is the first letter of its name.
fn event(id: u64, change: Change, path: &str) -> Event {
    let (parent, name) = path.rsplit_once('/').expect("absolute");
    let parent = parent.rsplit_once('/').map_or(ROOT_ID, |(_, name)| name.as_bytes()[0].into());
    Event { id, change, parent, name: name.into() }
}

/// The ids of living cgroups, without the root.
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
    let found = found.iter().map(|(id, path)| match *path {
        "/" => Found { id: *id, parent: 0, name: String::new() },
        path => {
            let Event { id, parent, name, .. } = event(*id, Change::Born, path);
            Found { id, parent, name }
        }
    });
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
    apply(&mut tree, &[(5, Change::Born, "/a"), (5, DIED, "/a")], start);
    assert!(alive(&tree).is_empty());
    assert!(tree.departed(start).is_empty());
    assert!(tree.get(5).is_some());
    assert_eq!(tree.departed(start + LAST_WORDS), [5]);
    assert_eq!(tree.counts(), (1, 1));
}

#[test]
fn what_a_removal_tells_stays_until_the_cgroup_is_forgotten() {
    let start = Instant::now();
    let mut tree = tree();
    let died = Change::Died { oom_kills: Some(2) };
    apply(&mut tree, &[(5, Change::Born, "/a"), (5, died, "/a")], start);
    assert_eq!(tree.get(5).and_then(|cgroup| cgroup.oom_kills), Some(2));
}

#[test]
fn a_walk_finds_births_and_deaths_that_were_missed() {
    let start = Instant::now();
    let mut tree = tree();
    apply(&mut tree, &[(4, Change::Born, "/gone"), (2, Change::Born, "/stays")], start);
    let later = start + UNSEEN_AT_FIRST;
    assert!(tree.reconcile(walk(&[(ROOT_ID, "/"), (2, "/stays"), (3, "/new")]), later));
    assert_eq!(tree.departed(later + LAST_WORDS), [4]);
    assert_eq!(alive(&tree), [2, 3]);
}

#[test]
fn a_new_cgroup_that_no_walk_can_see_yet_is_not_dead() {
    let start = Instant::now();
    let mut tree = tree();
    apply(&mut tree, &[(4, Change::Born, "/new")], start);
    assert!(!tree.reconcile(walk(&[(ROOT_ID, "/")]), start), "another walk is due");
    assert_eq!(alive(&tree), [4]);
    assert!(tree.reconcile(walk(&[(ROOT_ID, "/"), (4, "/new")]), start + UNSEEN_AT_FIRST));
    assert_eq!(alive(&tree), [4]);
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
fn a_child_of_an_unknown_cgroup_asks_for_a_walk() {
    let mut tree = tree();
    assert!(!tree.apply(&event(2, Change::Born, "/unheard/of"), Instant::now()));
    assert_eq!(tree.counts(), (1, 0));
}

#[test]
fn a_walk_that_could_not_see_everything_takes_none_for_dead() {
    let start = Instant::now();
    let mut tree = tree();
    apply(&mut tree, &[(4, Change::Born, "/hidden")], start);
    tree.reconcile(Walk { unreadable: 1, ..walk(&[]) }, start);
    assert_eq!(alive(&tree).len(), 1);
    let later = start + UNSEEN_AT_FIRST;
    tree.reconcile(walk(&[]), later);
    assert!(alive(&tree).is_empty());
    tree.reconcile(walk(&[(4, "/hidden")]), later);
    assert_eq!(alive(&tree).len(), 1, "seen again, so it was not dead");
}

fn origin(tree: &Tree, id: u64) -> Origin {
    tree.get(id).map(|cgroup| cgroup.origin).expect("it is known")
}

#[test]
fn what_the_first_walk_finds_is_older_and_what_is_told_of_is_born() {
    let start = Instant::now();
    let mut tree = Tree::default();
    tree.reconcile(walk(&[(ROOT_ID, "/"), (7, "/a")]), start);
    // It was created between the programs' start and the walk.
    apply(&mut tree, &[(7, Change::Born, "/a"), (8, Change::Born, "/b")], start);
    assert_eq!((origin(&tree, 7), origin(&tree, 8)), (Origin::Older, Origin::Born));
}

#[test]
fn a_birth_that_went_unheard_is_told_by_its_id() {
    let start = Instant::now();
    let mut tree = Tree::default();
    tree.reconcile(walk(&[(ROOT_ID, "/"), (7, "/a")]), start);
    apply(&mut tree, &[(20, Change::Born, "/heard")], start);
    let found = [(ROOT_ID, "/"), (5, "/missed"), (7, "/a"), (9, "/unheard"), (20, "/heard")];
    tree.reconcile(walk(&found), start);
    assert_eq!((origin(&tree, 5), origin(&tree, 9)), (Origin::Older, Origin::Born));
}

#[test]
fn one_that_is_found_again_after_it_was_given_up_is_not_new() {
    let start = Instant::now();
    let mut tree = tree();
    apply(&mut tree, &[(9, Change::Born, "/a")], start);
    tree.reconcile(walk(&[(ROOT_ID, "/")]), start + UNSEEN_AT_FIRST);
    tree.forget(9);
    tree.reconcile(walk(&[(ROOT_ID, "/"), (9, "/a")]), start);
    assert_eq!(origin(&tree, 9), Origin::Older);
}

#[test]
fn after_a_walk_that_could_not_see_everything_only_births_that_are_heard_are_new() {
    let start = Instant::now();
    let mut tree = Tree::default();
    tree.reconcile(Walk { unreadable: 1, ..walk(&[(ROOT_ID, "/")]) }, start);
    apply(&mut tree, &[(9, Change::Born, "/heard")], start);
    tree.reconcile(walk(&[(ROOT_ID, "/"), (8, "/below"), (9, "/heard")]), start);
    assert_eq!((origin(&tree, 8), origin(&tree, 9)), (Origin::Older, Origin::Born));
    tree.reconcile(walk(&[(ROOT_ID, "/"), (10, "/unheard")]), start);
    assert_eq!(origin(&tree, 10), Origin::Born);
}

/// Their slots can be freed only because their removal is noted: no walk finds out.
#[test]
fn removed_cgroups_are_noted_where_a_part_of_the_hierarchy_cannot_be_seen() {
    const VISIBLE_ROOT: u64 = 50;
    let start = Instant::now();
    let mut whole = tree();
    apply(&mut whole, &[(5, DIED, "/a")], start);
    assert!(whole.is_whole() && !whole.is_removed(5), "a walk tells");

    let mut part = Tree::default();
    let of_root = |id, parent, name: &str| Found { id, parent, name: name.into() };
    let found = vec![of_root(VISIBLE_ROOT, 0, ""), of_root(60, VISIBLE_ROOT, "a")];
    part.reconcile(Walk { found: found.clone(), unreadable: 0 }, start);
    assert!(!part.is_whole());
    apply(&mut part, &[(5, DIED, "/elsewhere"), (60, DIED, "/a")], start);
    assert_eq!([5, 60, 7].map(|id| part.is_removed(id)), [true, false, false]);
    assert!(!part.has_departed(5, start) && part.has_departed(5, start + LAST_WORDS));
    part.forget(60);
    let since = [start, start + LAST_WORDS].map(|now| part.has_departed(60, now));
    assert!(part.is_removed(60) && since == [false, true], "it is not in the tree any more");
    part.reconcile(Walk { found, unreadable: 0 }, start);
    assert!(!part.is_removed(60), "it exists");
    let many = REMOVED_MAX as u64;
    for id in 100..100 + 2 * many {
        apply(&mut part, &[(id, DIED, "/elsewhere")], start);
    }
    apply(&mut part, &[(6, DIED, "/old")], start);
    assert_eq!((part.removed.len(), part.removals.len()), (REMOVED_MAX, REMOVED_MAX));
    let is_noted = [5, 6, 99 + many, 99 + 2 * many].map(|id| part.is_removed(id));
    assert_eq!(is_noted, [false, true, false, true], "the oldest removals are forgotten, not the lowest ids");
}

#[test]
fn a_cgroup_stays_a_parent_when_what_was_below_it_has_gone() {
    let start = Instant::now();
    let mut tree = tree();
    apply(&mut tree, &[(97, Change::Born, "/a"), (98, Change::Born, "/a/b"), (98, DIED, "/a/b")], start);
    tree.forget(98);
    let is_parent = |id| tree.get(id).expect("known").is_parent;
    assert!(is_parent(ROOT_ID) && is_parent(97));
    apply(&mut tree, &[(99, Change::Born, "/c")], start);
    assert!(!tree.get(99).expect("known").is_parent);
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
    apply(&mut tree, &[(99, DIED, "/a/b/c")], start);
    let mut parents: Vec<_> = tree.parents().into_iter().collect();
    parents.sort_unstable();
    assert_eq!(parents, [0, ROOT_ID, 97]);
}

#[test]
fn a_walk_notices_a_rename_that_was_missed() {
    let start = Instant::now();
    let mut tree = tree();
    apply(&mut tree, &[(97, Change::Born, "/a"), (2, Change::Born, "/a/b")], start);
    let renamed = Found { id: 97, parent: ROOT_ID, name: "z".into() };
    let below = Found { id: 2, parent: 97, name: "b".into() };
    tree.reconcile(Walk { found: vec![renamed, below], unreadable: 0 }, start);
    assert_eq!(tree.path(2).as_deref(), Some("/z/b"));
    assert_eq!(tree.get(2).map(|cgroup| cgroup.name.name.as_str()), Some("/z/b"));
}

/// A chain of cgroups with the longest possible names. The first has the id 1000.
fn chain(tree: &mut Tree, top: &str, levels: u64) {
    for level in 0..levels {
        let parent = if level == 0 { ROOT_ID } else { 999 + level };
        let name = if level == 0 { top.to_owned() } else { "n".repeat(255) };
        assert!(tree.apply(&Event { id: 1000 + level, change: Change::Born, parent, name }, Instant::now()));
    }
}

#[test]
fn three_thousand_nested_cgroups_take_bounded_memory() {
    const LEVELS: u64 = 3000;
    let mut tree = tree();
    let before = heap_meter::begin();
    chain(&mut tree, "evil.service", LEVELS);
    let taken = heap_meter::peak_since(before);
    println!("{} KiB of the heap for {LEVELS} nested cgroups with names of 255 bytes", taken >> 10);
    assert!(taken < 4 << 20, "{taken} bytes");
    assert_eq!(alive(&tree).len(), 3000);
}

#[test]
fn what_has_too_long_a_path_is_a_part_of_what_is_above_it() {
    let mut tree = tree();
    chain(&mut tree, "evil.service", 100);
    let deep = tree.get(1099).expect("there");
    assert_eq!((deep.name.name.as_str(), deep.name.is_top), ("evil.service", false));
    assert_eq!(tree.path(1099), None);
    let reachable: Vec<_> = (1000..1100).filter_map(|id| tree.path(id)).collect();
    assert!(reachable.iter().all(|path| path.len() <= PATH_MAX));
    assert_eq!(tree.too_long(), 100 - reachable.len() as u64);
    // A rename far above may make it reachable, or not.
    let renamed = Event { id: 1000, change: Change::Renamed, parent: ROOT_ID, name: "e.scope".into() };
    assert!(tree.apply(&renamed, Instant::now()));
    assert_eq!(tree.get(1099).map(|cgroup| cgroup.name.name.as_str()), Some("e.scope"));
}

#[test]
fn a_cgroup_that_is_said_to_be_in_itself_ends_nothing() {
    let mut tree = tree();
    apply(&mut tree, &[(5, Change::Born, "/a")], Instant::now());
    let inside = Event { id: 5, change: Change::Renamed, parent: 5, name: "b".into() };
    assert!(tree.apply(&inside, Instant::now()));
    assert_eq!(tree.path(5), None);
}
