//! What is known of a workload in a window.

use super::*;
use crate::cli::fixture::pod::{POD, gone, pod, target, window};

#[test]
fn containers_that_are_there_are_counted() {
    let (earlier, later) = window();
    let all = Subject::of(&earlier, &later, &target()).expect("the pod is there");
    assert_eq!(all, Subject { window: Duration::from_secs(2), containers: 2, gone: false });
    let proxy = Target { who: pod("shop", POD), container: Some("istio-proxy".to_owned()) };
    assert_eq!(Subject::of(&earlier, &later, &proxy).map(|proxy| proxy.containers), Some(1));
}

#[test]
fn one_that_goes_has_its_last_window() {
    let (earlier, later) = window();
    let last = Subject::of(&earlier, &gone(later.clone()), &target()).expect("it is still known");
    assert!(last.gone);
    assert_eq!(last.containers, 0);
    let none = Target { who: pod("shop", "never-there"), container: None };
    assert_eq!(Subject::of(&earlier, &later, &none), None);
}
