//! The windows that are kept.

use super::*;
use crate::cli::fixture::{flushing, snapshot, workload};

/// A snapshot in which each of these workloads has called fsync this often, for a millisecond each time.
fn snapshot_at(seconds: u64, calls: &[(&str, usize)]) -> Snapshot {
    let samples =
        calls.iter().map(|(name, calls)| flushing(workload("", "", name), &vec![1_000_000; *calls]));
    snapshot(seconds, samples.collect())
}

fn flushed(trends: &Trends, name: &str) -> Vec<bool> {
    trends.of(&workload("", "", name), SortKey::Fsync99).iter().map(Option::is_some).collect()
}

#[test]
fn windows_follow_each_other() {
    let mut trends = Trends::default();
    trends.record(&snapshot_at(1, &[("a", 1)]), &snapshot_at(2, &[("a", 2)]));
    trends.record(&snapshot_at(2, &[("a", 2)]), &snapshot_at(3, &[("a", 2), ("b", 1)]));
    trends.record(&snapshot_at(3, &[("a", 2), ("b", 1)]), &snapshot_at(4, &[("a", 5), ("b", 1)]));
    assert_eq!(flushed(&trends, "a"), [true, false, true]);
    assert_eq!(flushed(&trends, "b"), [true, false]);
}

#[test]
fn who_goes_is_forgotten() {
    let mut trends = Trends::default();
    trends.record(&snapshot_at(1, &[]), &snapshot_at(2, &[("a", 2), ("b", 1)]));
    trends.record(&snapshot_at(2, &[("a", 2), ("b", 1)]), &snapshot_at(3, &[("b", 2)]));
    assert!(flushed(&trends, "a").is_empty());
    assert_eq!(flushed(&trends, "b"), [true, true]);
    trends.record(&snapshot_at(3, &[("b", 2)]), &snapshot_at(4, &[("a", 1), ("b", 2)]));
    assert_eq!(flushed(&trends, "a"), [true], "who comes again is new");
}

#[test]
fn the_oldest_windows_are_the_first_to_go() {
    let mut trends = Trends::default();
    trends.record(&snapshot_at(0, &[]), &snapshot_at(1, &[("a", 1)]));
    for seconds in 1..=sparkline::WINDOWS as u64 {
        trends.record(&snapshot_at(seconds, &[("a", 1)]), &snapshot_at(seconds + 1, &[("a", 1)]));
    }
    assert_eq!(flushed(&trends, "a"), [false; sparkline::WINDOWS]);
}

/// Windows in which one fsync took this many milliseconds.
fn took(milliseconds: &[u64]) -> Trends {
    let mut trends = Trends::default();
    let mut calls = Vec::new();
    for (second, length) in (1..).zip(milliseconds) {
        let before = snapshot(second, vec![flushing(workload("", "", "a"), &calls)]);
        calls.push(length * 1_000_000);
        trends.record(&before, &snapshot(second + 1, vec![flushing(workload("", "", "a"), &calls)]));
    }
    trends
}

#[test]
fn what_is_far_above_the_last_windows_is_unusual() {
    let unusual = |milliseconds: &[u64]| took(milliseconds).unusual(&workload("", "", "a"));
    let mut usual = vec![2; 12];
    assert!(unusual(&usual).is_empty());
    usual.push(20);
    assert_eq!(unusual(&usual), [SortKey::Fsync99]);
    assert!(unusual(&usual[4..]).is_empty(), "too little is known");
    usual.push(2);
    assert!(unusual(&usual).is_empty(), "it is over");
    assert!(unusual(&[&[0; 12][..], &[0]].concat()).is_empty(), "too short to matter");
}
