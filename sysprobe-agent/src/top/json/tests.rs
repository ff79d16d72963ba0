//! The JSON document.

use serde_json::{Value, json};

use super::{
    super::{fixture::node, rows::SortKey},
    *,
};

fn document(sort: SortKey) -> Value {
    let (earlier, later) = node();
    let selection = Selection { sort, ..Selection::default() };
    let line = line(&earlier, &later, &selection, "agent at /run/a").unwrap();
    assert_eq!(line.matches('\n').count(), 1, "one document per line");
    serde_json::from_str(&line).unwrap()
}

#[test]
fn the_document_has_its_fixed_fields() {
    let document = document(SortKey::Throttled);
    assert_eq!(document["version"], 1);
    assert_eq!(document["source"], "agent at /run/a");
    assert_eq!(document["window_seconds"], 2.0);
    assert_eq!(document["workloads_total"], 8);
    assert_eq!(document["domains"][0]["name"], "sched");
    let first = &document["workloads"][0];
    let stable = json!({
        "namespace": "shop",
        "pod": "checkout-7d9c5b6f4-x2x9q",
        "container": "server",
        "kind": "container",
        "cpu_cores": 0.5,
        "cpu_quota_cores": 0.5,
        "throttled_ratio": 0.7,
        "throttled_seconds_per_second": 0.45,
        "wait_p50_seconds": first["wait_p50_seconds"],
        "wait_p99_seconds": first["wait_p99_seconds"],
        "wait_max_seconds": 0.0625,
        "wait_above_range": false,
        "wait_seconds_per_second": 0.030_546_5,
        "voluntary_switches_per_second": 1200.0,
        "involuntary_switches_per_second": 155.0,
        "fsyncs_per_second": 1.5,
        "fsync_p99_seconds": first["fsync_p99_seconds"],
    });
    assert_eq!(*first, stable);
}

#[test]
fn a_wait_beyond_the_range_is_marked_as_such() {
    let first = &document(SortKey::Max)["workloads"][0];
    assert_eq!(first["wait_max_seconds"], 32.0);
    assert_eq!(first["wait_above_range"], true);
}

#[test]
fn fsyncs_are_in_their_buckets_middle() {
    let p99 = document(SortKey::Fsync99)["workloads"][0]["fsync_p99_seconds"].as_f64().unwrap();
    assert!((0.055..0.067).contains(&p99), "{p99}");
}

#[test]
fn what_is_not_there_is_null() {
    let document = document(SortKey::Name);
    let workloads = document["workloads"].as_array().unwrap();
    let kernel = workloads.iter().find(|workload| workload["kind"] == "kernel").unwrap();
    assert_eq!(kernel["throttled_ratio"], Value::Null);
    assert_eq!(kernel["cpu_quota_cores"], Value::Null);
    assert_eq!((&kernel["fsyncs_per_second"], &kernel["fsync_p99_seconds"]), (&json!(0.0), &Value::Null));
}
