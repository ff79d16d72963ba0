//! Rows from two snapshots.

use std::sync::Arc;
use std::time::Duration;

use super::{
    super::fixture::{cpu, node, sample, sched, snapshot, workload},
    *,
};
use crate::show::scope::PodSelector;
use crate::snapshot::{PodSample, WorkloadSample};

const MS: u64 = 1_000_000;

fn name() -> Workload {
    workload("shop", "checkout-0", "server")
}

/// The row of one workload between two of its samples, two seconds apart.
fn one_row(earlier: Option<WorkloadSample>, later: WorkloadSample) -> Row {
    let all = Selection { all: true, ..Selection::default() };
    let earlier = snapshot(10, earlier.into_iter().collect());
    rows(&earlier, &snapshot(12, vec![later]), &all).pop().expect("one workload")
}

fn names(selection: &Selection) -> Vec<String> {
    let (earlier, later) = node();
    let name = |row: Row| row.workload.container.chars().take(8).collect();
    rows(&earlier, &later, selection).into_iter().map(name).collect()
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
    let all = Selection { all: true, ..Selection::default() };
    assert_eq!(later.window_since(&later), Duration::ZERO);
    let rows = rows(&later, &later, &all);
    assert_eq!(rows.len(), 8);
    assert!(rows.iter().all(|row| row.cpu_cores.is_none() && row.switch_rate().is_none()));
}

#[test]
fn a_wait_beyond_the_range_is_infinitely_long_at_most() {
    let row = one_row(None, sample(name(), Some(sched(0, &[70_000 * MS], 1, 0)), None));
    assert_eq!(row.wait_max, Some(f64::INFINITY));
    assert_eq!(row.wait_p99, Some(32.0));
}

#[test]
fn idle_workloads_show_on_request_only() {
    assert_eq!(names(&Selection::default()).len(), 6);
    assert_eq!(names(&Selection { all: true, ..Selection::default() }).len(), 8);
}

#[test]
fn the_filter_ignores_case_and_looks_at_every_name() {
    let filtered =
        |filter: &str| names(&Selection { filter: filter.to_owned(), all: true, ..Selection::default() });
    assert_eq!(filtered("SHOP").len(), 3);
    assert_eq!(filtered("nightly"), ["report-g"]);
    assert_eq!(filtered(".Service").len(), 2);
    assert!(filtered("shop/").is_empty());
}

#[test]
fn rows_sort_largest_first_and_names_from_a_to_z() {
    let sorted = |sort, reverse| names(&Selection { sort, reverse, ..Selection::default() });
    assert_eq!(sorted(SortKey::Cpu, false)[..2], ["4f1c0e9d", "server"]);
    assert_eq!(sorted(SortKey::Cpu, true)[0], "systemd-");
    assert_eq!(sorted(SortKey::Max, false)[0], "report-g");
    assert_eq!(sorted(SortKey::Switches, false)[0], "kernel");
    assert_eq!(sorted(SortKey::Name, false)[0], "4f1c0e9d");
    assert_eq!(sorted(SortKey::Name, true)[5], "4f1c0e9d");
}

#[test]
fn rows_without_the_number_come_last_either_way() {
    for (reverse, first) in [(false, "server"), (true, "report-g")] {
        let sorted = names(&Selection { sort: SortKey::Throttled, reverse, ..Selection::default() });
        assert_eq!(sorted[0], first);
        assert_eq!(sorted[3..], ["4f1c0e9d", "kernel", "systemd-"]);
    }
}

fn by_pods() -> Selection {
    Selection { pods: true, ..Selection::default() }
}

fn names_of(selection: &Selection) -> Vec<String> {
    let (earlier, later) = node();
    let name = |row: &Row| row.name(selection, crate::show::format::short_name);
    rows(&earlier, &later, selection).iter().map(name).collect()
}

#[test]
fn containers_of_a_pod_have_one_row_together() {
    let (earlier, later) = node();
    let pods = rows(&earlier, &later, &by_pods());
    let pod = pods.iter().find(|row| row.workload.namespace == "shop").expect("the pod");
    assert_eq!((pod.kind, pod.workload.container.as_str()), (WorkloadKind::Pod, ""));
    let containers = rows(&earlier, &later, &Selection::default());
    let of_pod = containers.iter().filter(|row| row.workload.namespace == "shop");
    let cores: f64 = of_pod.filter_map(|row| row.cpu_cores).sum();
    assert!((pod.cpu_cores.expect("on") - cores).abs() < 1e-9);
    assert_eq!((pods.len(), containers.len()), (5, 6));
}

#[test]
fn containers_stand_below_the_pod_that_is_expanded() {
    let pod = workload("shop", "checkout-7d9c5b6f4-x2x9q", "");
    let expanded = Selection { expanded: [pod].into(), ..by_pods() };
    let names = names_of(&expanded);
    let at = names.iter().position(|name| name == "shop/checkout-7d9c5b6f4-x2x9q").expect("the pod");
    assert_eq!(names[at + 1..at + 3], ["  server", "  istio-proxy"]);
    assert_eq!(names.len(), names_of(&by_pods()).len() + 2);
}

#[test]
fn a_container_that_matches_the_filter_brings_its_pod_as_a_whole() {
    let filtered = Selection { filter: "istio".to_owned(), ..by_pods() };
    let (earlier, later) = node();
    let (found, all) = (rows(&earlier, &later, &filtered), rows(&earlier, &later, &by_pods()));
    assert_eq!(found.len(), 1);
    let pod = all.iter().find(|row| row.workload == found[0].workload);
    assert_eq!(pod, found.first());
}

#[test]
fn one_namespace_can_be_left_alone() {
    let shop = Selection {
        scope: Scope { namespace: Some("shop".to_owned()), ..Scope::default() },
        all: true,
        ..by_pods()
    };
    assert_eq!(names_of(&shop), ["shop/checkout-7d9c5b6f4-x2x9q", "shop/idle-0"]);
}

#[test]
fn labels_choose_pods() {
    let (earlier, mut later) = node();
    let selector = Some(PodSelector::parse("app=checkout").expect("a selector"));
    let checkout = Selection { scope: Scope { selector, ..Scope::default() }, all: true, ..by_pods() };
    assert!(rows(&earlier, &later, &checkout).is_empty(), "the labels are not known");
    for sample in later.workloads.iter_mut().filter(|sample| sample.workload.pod.starts_with("checkout")) {
        let labels = Arc::new([("app".to_owned(), "checkout".to_owned())].into());
        sample.pod = Some(PodSample { labels: Some(labels), ..PodSample::default() });
    }
    let found = rows(&earlier, &later, &checkout);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].workload.pod, "checkout-7d9c5b6f4-x2x9q");
}
