//! Resolving what users type.

use clap::Parser;

use std::sync::Arc;

use super::{
    super::fixture::pod::{POD, gone, pod, unit, window},
    *,
};
use crate::snapshot::PodSample;

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    args: WorkloadArgs,
}

fn find_in(snapshot: &Snapshot, words: &[&str]) -> Result<Target, NoTarget> {
    let line = Line::try_parse_from(std::iter::once(&"blame").chain(words)).expect("valid flags");
    Target::find(snapshot, &line.args)
}

fn find(words: &[&str]) -> Result<Target, NoTarget> {
    find_in(&window().1, words)
}

fn refusal(words: &[&str]) -> String {
    find(words).expect_err("it is not found").to_string()
}

#[test]
fn a_name_or_its_unique_beginning_is_enough() {
    let whole = |who| Ok(Target { who, container: None });
    assert_eq!(find(&[POD]), whole(pod("shop", POD)));
    assert_eq!(find(&["checkout-7d9c5b6f4-x"]), whole(pod("shop", POD)));
    assert_eq!(find(&["test/search-0"]), whole(pod("test", "search-0")));
    assert_eq!(find(&["test/s"]), whole(pod("test", "search-0")));
    assert_eq!(find(&["search", "-n", "shop"]), whole(pod("shop", "search-0")));
    assert_eq!(find(&["nginx"]), whole(unit("nginx.service")));
    assert_eq!(find(&["/system.slice/nginx.service"]), whole(unit("nginx.service")));
}

#[test]
fn a_whole_name_is_not_ambiguous() {
    assert_eq!(find(&["/demo"]).map(|target| target.name()), Ok("/demo".to_owned()));
    assert_eq!(find(&["/demo/"]).map(|target| target.name()), Ok("/demo/web".to_owned()));
}

#[test]
fn a_container_is_one_of_the_pods() {
    let proxy = find(&[POD, "--container", "istio"]).expect("there is one");
    assert_eq!(proxy.name(), format!("shop/{POD}/istio-proxy"));
    assert_eq!(proxy.samples(&window().1).count(), 1);
    assert_eq!(
        refusal(&[POD, "--container", "redis"]),
        "no container of this pod is called `redis`; there are istio-proxy, server"
    );
    assert_eq!(
        refusal(&["nginx", "--container", "x"]),
        "`nginx.service` is not a pod: leave out --container"
    );
}

#[test]
fn what_is_ambiguous_or_unknown_is_answered_with_names() {
    assert_eq!(
        refusal(&["search-0"]),
        "`search-0` may be more than one workload; choose one of shop/search-0, test/search-0"
    );
    assert_eq!(refusal(&["arch"]), "no workload is called `arch`; there are shop/search-0, test/search-0");
    assert_eq!(refusal(&["search", "-n", "x"]), "no pod of this namespace is called `search`");
    assert_eq!(refusal(&["service"]), "no workload is called `service`; there is nginx.service");
}

#[test]
fn ten_names_are_listed_at_most() {
    let names = (10..23).map(|number| format!("/demo-{number}")).collect();
    let text = NoTarget::Ambiguous { what: "workload", text: "/demo\x1b".to_owned(), candidates: names };
    let text = text.to_string();
    assert!(text.ends_with(", /demo-18, /demo-19 and 3 more"), "{text}");
    assert!(!text.contains('\x1b'), "what was typed cannot drive the terminal: {text}");
}

#[test]
fn what_has_gone_counts_if_nothing_else_fits() {
    let later = gone(window().1);
    let found = |text| find_in(&later, &[text]).map(|target| target.who.pod);
    assert_eq!(found("checkout"), Ok("checkout-7d9c5b6f4-zzzzz".to_owned()));
    assert_eq!(found("checkout-7d9c5b6f4-x"), Ok(POD.to_owned()));
}

/// With labels from the API server: both search pods share one label and differ in another.
fn labelled() -> Snapshot {
    let mut later = window().1;
    for sample in later.workloads.iter_mut().filter(|sample| !sample.workload.pod.is_empty()) {
        let mut labels = Vec::new();
        if sample.workload.pod.starts_with("search") {
            labels.push(("app".to_owned(), "search".to_owned()));
            labels.push(("stage".to_owned(), sample.workload.namespace.clone()));
        }
        sample.pod =
            Some(PodSample { labels: Some(Arc::new(labels.into_iter().collect())), ..PodSample::default() });
    }
    later
}

#[test]
fn labels_may_stand_for_the_name() {
    let find = |words: &[&str]| find_in(&labelled(), words);
    let refusal = |words: &[&str]| find(words).expect_err("it is not found").to_string();
    let one = Ok(Target { who: pod("test", "search-0"), container: None });
    assert_eq!(find(&["-l", "app=search,stage=test"]), one);
    assert_eq!(find(&["-l", "app=search", "-n", "test"]), one);
    assert_eq!(find(&["search", "-l", "stage!=shop"]), one);
    assert_eq!(
        refusal(&["-l", "app=search"]),
        "`app=search` may be more than one pod; choose one of shop/search-0, test/search-0"
    );
    assert_eq!(refusal(&["-l", "app=none"]), "no pod on this node matches labels app=none");
    assert_eq!(
        refusal(&["nginx", "-l", "app"]),
        "no pod with these labels is called `nginx`; there are shop/search-0, test/search-0"
    );
    let error = Line::try_parse_from(["blame"]).expect_err("nothing is named").to_string();
    assert!(error.contains("<POD>"), "{error}");
}

#[test]
fn labels_that_nobody_tells_are_missed() {
    let mut later = labelled();
    later.forget_labels();
    let error = find_in(&later, &["-l", "app"]).expect_err("the labels are not known");
    assert!(error.is_unknown() && error.to_string().contains("sysprobe check"), "{error}");
}
