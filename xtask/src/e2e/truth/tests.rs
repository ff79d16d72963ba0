//! Scrapes with one thing wrong.

use std::fmt::Write;

use super::*;
use crate::e2e::samples;

const WEB: (&str, &str, &str, f64) = ("n", "p", "web", 1.0);
const WHOLE: (&str, &str, &str, f64) = ("n", "p", "", 1.0);
const ID: &str = "951fb6e9ab35";

fn container(id: &str, name: Option<&str>, pid: u32) -> Container {
    Container {
        id: id.into(),
        namespace: "n".into(),
        pod: "p".into(),
        uid: "u-1".into(),
        name: name.map(str::to_owned),
        pid: Some(pid),
        started: Some(5.0),
    }
}

fn now() -> Now {
    Now { time: 10.0, containers: vec![container(ID, Some("web"), 1), container("5a5a", None, 2)] }
}

/// The families that a workload has.
fn families(container: &str) -> &'static [&'static str] {
    if container.is_empty() { &POD_FAMILIES } else { &FAMILIES }
}

/// A scrape in which these workloads have all families.
fn scrape(workloads: &[(&str, &str, &str, f64)]) -> Vec<Sample> {
    let mut text = String::new();
    for (namespace, pod, container, value) in workloads {
        for family in families(container) {
            let labels = format!("namespace=\"{namespace}\",pod=\"{pod}\",container=\"{container}\"");
            writeln!(text, "{family}{{{labels}}} {value}").unwrap();
        }
    }
    samples::parse(&text).unwrap()
}

fn faults(workloads: &[(&str, &str, &str, f64)]) -> Vec<String> {
    let mut history = History::default();
    history.note(&now());
    history.faults(&scrape(workloads), &now().throughout(&now()), Ids::Never)
}

#[test]
fn a_right_scrape_has_no_fault() {
    let right = [WEB, WHOLE, ("n", "p", "POD", 1.0), ("", "", "kernel", 9.0), ("", "", "unknown", 0.01)];
    assert!(faults(&right).is_empty(), "{:?}", faults(&right));
}

#[test]
fn wrong_labels_are_faults() {
    assert_eq!(faults(&[WHOLE, ("n", "p", "POD", 1.0)]).len(), FAMILIES.len(), "no series");
    assert_eq!(faults(&[WEB]).len(), POD_FAMILIES.len(), "no histogram");
    assert_eq!(faults(&[WEB, WHOLE, ("n", "other", "web", 1.0)]), ["there is no n/other/web"]);
    assert_eq!(faults(&[WEB, WHOLE, ("n", "p", "db", 1.0)]), ["there is no n/p/db"]);
    let path = format!("/kubepods/podu-1/{ID}");
    assert_eq!(faults(&[WEB, WHOLE, ("", "", &path, 1.0)]).len(), 1, "an id is no name");
    assert_eq!(faults(&[WEB, WHOLE, ("", "", "unknown", 1.0)]).len(), 1, "too much is unknown");
}

#[test]
fn an_id_is_only_right_in_its_own_pod_and_where_that_is_allowed() {
    let mut history = History::default();
    history.note(&now());
    let faults = |pod: &str, ids| history.faults(&scrape(&[("n", pod, ID, 1.0)]), &BTreeSet::new(), ids);
    assert_eq!(faults("p", Ids::Never).len(), 1);
    assert!(faults("p", Ids::InOwnPod).is_empty());
    assert_eq!(faults("other", Ids::InOwnPod).len(), 1);
}

#[test]
fn only_what_ran_at_both_moments_has_to_be_there() {
    let restarted = Now { time: 10.0, containers: vec![container("77aa", Some("web"), 3)] };
    assert!(now().throughout(&restarted).is_empty());
    let young = Now { time: 6.0, ..now() };
    assert!(young.throughout(&now()).is_empty());
    assert_eq!(now().throughout(&now()), BTreeSet::from([Workload::new("n", "p", "web")]));
}

#[test]
fn counters_that_go_backwards_are_found() {
    let before = scrape(&[("n", "p", "web", 2.0)]);
    let before = before.iter().map(|sample| (sample.series(), sample.value)).collect();
    assert!(backwards(&before, &scrape(&[("n", "p", "web", 2.0)])).is_empty());
    assert_eq!(backwards(&before, &scrape(&[("n", "p", "web", 1.0)])).len(), FAMILIES.len());
}
