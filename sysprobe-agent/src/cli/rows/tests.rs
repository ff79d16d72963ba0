//! Rows from two snapshots.

use std::time::Duration;

use super::*;
use crate::cli::fixture::{cpu, node, sample, sched, snapshot, workload};
use crate::snapshot::WorkloadSample;

const MS: u64 = 1_000_000;

fn name() -> Workload {
    workload("shop", "checkout-0", "server")
}

/// The row of one workload between two of its samples, two seconds apart.
pub(super) fn one_row(earlier: Option<WorkloadSample>, later: WorkloadSample) -> Row {
    row_between(&snapshot(10, earlier.into_iter().collect()), &snapshot(12, vec![later]))
}

/// The row of the only workload of the later snapshot.
pub(super) fn row_between(earlier: &Snapshot, later: &Snapshot) -> Row {
    let [only] = &*later.workloads else { panic!("{} workloads", later.workloads.len()) };
    PodRows::of(earlier, later, |_| true).all().find(|row| row.workload == only.workload).expect("its row")
}

#[test]
fn numbers_are_differences_over_the_window() {
    let earlier =
        sample(name(), Some(sched(500 * MS, &[1_000], 10, 1)), Some(cpu(500 * MS, 100, 50, 7_000 * MS)));
    let waits = [1_000, 3_000 * MS];
    let later =
        sample(name(), Some(sched(1_000 * MS, &waits, 30, 2)), Some(cpu(9_000 * MS, 120, 55, 8_000 * MS)));
    let row = one_row(Some(earlier), later);
    assert_eq!(row.cpu_cores, Some(0.25));
    assert_eq!(row.throttled_ratio, Some(0.25));
    assert_eq!(row.throttled_rate, Some(0.5));
    assert_eq!(row.voluntary_rate, Some(10.0));
    assert_eq!(row.involuntary_rate, Some(0.5));
    assert_eq!(row.switch_rate(), Some(10.5));
    assert_eq!(row.waiting, Some(1.5));
    assert_eq!(row.quota_cores, Some(0.5));
    for wait in [row.wait_p50, row.wait_p99, row.wait_max] {
        assert!(
            (2.7..3.4).contains(&wait.expect("one wait")),
            "the earlier wait of 1 us is not in the window: {wait:?}"
        );
    }
}

#[test]
fn a_new_workload_counts_from_zero() {
    let row = one_row(None, sample(name(), Some(sched(200 * MS, &[1_000], 4, 0)), Some(cpu(0, 10, 1, 0))));
    assert_eq!(row.cpu_cores, Some(0.1));
    assert_eq!(row.throttled_ratio, Some(0.1));
    assert_eq!(row.voluntary_rate, Some(2.0));
    let row = one_row(None, sample(name(), None, Some(cpu(500 * MS, 0, 0, 0))));
    assert_eq!(row.cpu_cores, Some(0.25));
}

#[test]
fn totals_that_went_backwards_are_new_together() {
    let earlier = sample(name(), Some(sched(900 * MS, &[5 * MS], 10, 9)), Some(cpu(9, 100, 60, 70)));
    let later = sample(name(), Some(sched(200 * MS, &[6 * MS], 20, 2)), Some(cpu(4, 10, 9, 80)));
    let row = one_row(Some(earlier), later);
    assert_eq!(row.cpu_cores, Some(0.1));
    assert_eq!(row.voluntary_rate, Some(10.0));
    assert_eq!(row.involuntary_rate, Some(1.0));
    assert_eq!(row.throttled_ratio, Some(0.9));
    assert_eq!(row.waiting, Some(0.003));
}

#[test]
fn without_the_scheduler_the_cgroup_tells_the_cpu() {
    let row = one_row(
        Some(sample(name(), None, Some(cpu(1_000 * MS, 0, 0, 0)))),
        sample(name(), None, Some(cpu(2_000 * MS, 0, 0, 0))),
    );
    assert_eq!(row.cpu_cores, Some(0.5));
    assert_eq!((row.wait_p99, row.wait_max, row.waiting), (None, None, None));
    assert_eq!(row.switch_rate(), None);
}

#[test]
fn files_that_could_not_be_read_before_say_nothing_about_the_window() {
    let unread = || Some(sample(name(), None, None));
    let row = one_row(unread(), sample(name(), None, Some(cpu(90_000 * MS, 900, 90, 1))));
    assert_eq!((row.cpu_cores, row.throttled_ratio, row.throttled_rate), (None, None, None));
    let row = one_row(unread(), sample(name(), Some(sched(200 * MS, &[], 0, 0)), None));
    assert_eq!(row.cpu_cores, Some(0.1), "the agent began to count this in the window");
}

#[test]
fn without_a_quota_or_a_period_there_is_no_throttled_share() {
    let row = one_row(None, sample(name(), None, Some(cpu(1, 0, 0, 0))));
    assert_eq!((row.throttled_ratio, row.throttled_rate), (None, None));
    let same = || sample(name(), None, Some(cpu(1, 40, 7, 9)));
    assert_eq!(one_row(Some(same()), same()).throttled_ratio, None);
}

#[test]
fn an_empty_window_has_no_rates() {
    let (_, later) = node();
    assert_eq!(later.window_since(&later), Duration::ZERO);
    let rows: Vec<Row> = PodRows::of(&later, &later, |_| true).all().collect();
    assert!(rows.len() >= later.workloads.len());
    assert!(rows.iter().all(|row| row.cpu_cores.is_none() && row.switch_rate().is_none()));
}

#[test]
fn a_wait_beyond_the_range_is_infinitely_long_at_most() {
    let row = one_row(None, sample(name(), Some(sched(0, &[70_000 * MS], 1, 0)), None));
    assert_eq!(row.wait_max, Some(f64::INFINITY));
    assert_eq!(row.wait_p99, Some(32.0));
}

#[test]
fn pods_are_whole() {
    let (earlier, later) = node();
    let rows: Vec<Row> = PodRows::of(&earlier, &later, |_| true).rows().collect();
    assert!(rows.iter().any(|row| row.workload.pod.is_empty()), "workloads outside of pods");
    let pods = rows.iter().filter(|row| !row.workload.pod.is_empty());
    assert!(pods.clone().count() > 0 && pods.clone().all(|row| row.workload.container.is_empty()));
}
