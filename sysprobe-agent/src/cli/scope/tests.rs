//! The pods that a selector selects, compared with `kubectl -l`.

use std::sync::Arc;

use super::*;
use crate::cli::fixture::{sample, snapshot, workload};
use crate::snapshot::{PodSample, PodSourceSample};

fn pod(name: &str, labels: Option<&[(&str, &str)]>) -> WorkloadSample {
    let owned = |labels: &[(&str, &str)]| {
        Arc::new(labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
    };
    let pod = Some(PodSample { labels: labels.map(owned), ..PodSample::default() });
    WorkloadSample { pod, ..sample(workload("shop", name, "main"), None, None) }
}

fn pods() -> Vec<WorkloadSample> {
    vec![
        pod("web", Some(&[("app", "web"), ("tier", "front"), ("app.kubernetes.io/name", "web")])),
        pod("cache", Some(&[("app", "cache"), ("canary", "")])),
        pod("bare", Some(&[])),
        pod("unknown", None),
        sample(workload("", "", "ssh.service"), None, None),
    ]
}

fn scope(selector: &str) -> Scope {
    Scope { selector: Some(PodSelector::parse(selector).expect(selector)), ..Scope::default() }
}

fn selected(selector: &str) -> String {
    let (scope, pods) = (scope(selector), pods());
    let names = pods.iter().filter(|sample| scope.has(sample)).map(|sample| sample.workload.pod.as_str());
    names.collect::<Vec<_>>().join(" ")
}

#[test]
fn selectors_mean_what_they_mean_to_kubectl() {
    let cases = [
        ("app=web", "web"),
        ("app==web", "web"),
        (" app = web ", "web"),
        ("app!=web", "cache bare"),
        ("app in (web, cache)", "web cache"),
        ("app in (web,cache),tier", "web"),
        ("app notin (web)", "cache bare"),
        ("app", "web cache"),
        ("!app", "bare"),
        ("canary=", "cache"),
        ("app.kubernetes.io/name=web", "web"),
        ("app=web,app=cache", ""),
    ];
    for (selector, pods) in cases {
        assert_eq!(selected(selector), pods, "{selector}");
    }
}

#[test]
fn what_is_no_selector_is_answered_with_the_forms() {
    let long = format!("a={}", "x".repeat(64));
    for text in [
        "",
        ",",
        "app=web,",
        "app in web",
        "app in (web",
        "app near (web)",
        "a b",
        "!",
        "=x",
        "!a=b",
        "a=b c",
        "a/=b",
        "a in ()",
        "-a=b",
        "a=-b",
        "/x",
        "..",
        "A B/x",
        "a>3",
        long.as_str(),
    ] {
        let error = PodSelector::parse(text).expect_err(text);
        assert!(error.contains("write `key=value`"), "{text}: {error}");
    }
}

#[test]
fn both_flags_count() {
    let both = Scope { namespace: Some("test".into()), ..scope("app") };
    assert!(!pods().iter().any(|sample| both.has(sample)));
    assert_eq!(both.words().as_deref(), Some("namespace test, labels app"));
    assert_eq!(Scope::default().words(), None);
    assert!(both.query().labels && !Scope::default().query().labels);
}

#[test]
fn labels_that_nobody_knows_are_an_error() {
    let of = |pods| snapshot(1, pods);
    assert_eq!(scope("app").check(&of(pods())), Ok(()));
    let mut empty = of(Vec::new());
    assert_eq!(scope("app").check(&empty), Err(NoLabels::NoSource));
    for (source, up, known) in [("kubernetes", false, false), ("runtime", true, false), ("cri", true, true)] {
        empty.agent.pod_sources = vec![PodSourceSample { source: source.into(), up, reason: String::new() }];
        assert_eq!(scope("app").check(&empty).is_ok(), known, "{source}");
    }
    assert_eq!(scope("app").check(&of(vec![pod("unknown", None)])), Err(NoLabels::NoSource));
    assert_eq!(Scope::default().check(&of(vec![pod("unknown", None)])), Ok(()));
    let old = Snapshot { version: LABELS_SINCE - 1, ..of(pods()) };
    assert_eq!(scope("app").check(&old), Err(NoLabels::OldAgent));
}
