//! Which rows a table shows, in which order.

use std::sync::Arc;

use super::*;
use crate::cli::fixture::{node, workload};
use crate::cli::scope::PodSelector;
use crate::snapshot::{PodSample, WorkloadKind};

fn names(selection: &Selection) -> Vec<String> {
    let (earlier, later) = node();
    let name = |row: Row| row.workload.container.chars().take(8).collect();
    rows(&earlier, &later, selection).into_iter().map(name).collect()
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
    let name = |row: &Row| selection.name(row, crate::cli::format::short_name);
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

#[test]
fn storage_rows_sort_by_any_of_their_numbers() {
    let (earlier, later) = node();
    let first = |sort| {
        let selection = Selection { view: View::Io, sort, ..Selection::default() };
        rows(&earlier, &later, &selection).remove(0).workload.container
    };
    assert_eq!(first(SortKey::Read), "server");
    assert_eq!(first(SortKey::WriteBytes), "report-generator");
    assert_eq!(first(SortKey::Write99), "report-generator");
    assert_eq!(first(SortKey::Fsync), "server");
    assert_eq!(first(SortKey::Fsync99), "server");
    assert_eq!(first(SortKey::Create), "systemd-journald.service");
    assert_eq!(first(SortKey::Errors), "report-generator");
}
