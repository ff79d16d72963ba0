//! The JSON document of `io`.

use serde_json::{Value, json};

use crate::cli::command::top::json::tests::printed;
use crate::cli::command::top::selection::Selection;
use crate::cli::command::top::views::View;
use crate::cli::fixture::{flushing, node, snapshot, without_vfs, workload};
use crate::cli::rows::SortKey;
use crate::cli::schema::Form;
use crate::cli::schema::proof::faults;

fn selection(all: bool) -> Selection {
    Selection { view: View::Io, sort: SortKey::Fsync99, all, ..Selection::default() }
}

fn document(all: bool) -> Value {
    let (earlier, later) = node();
    printed(&earlier, &later, &selection(all))
}

#[test]
fn the_document_has_its_fixed_fields() {
    let document = document(false);
    assert_eq!(document["version"], 2);
    assert_eq!(document["source"], "agent at /run/a");
    assert_eq!(document["window_seconds"], 2.0);
    assert_eq!(document["workloads_total"], 8);
    assert_eq!(document["workloads"].as_array().map(Vec::len), Some(4));
    let last = &document["workloads"][3];
    let write = &last["write"];
    let stable = json!({
        "namespace": "batch-processing",
        "pod": "nightly-report-generator-28833120-l4k7d",
        "container": "report-generator",
        "kind": "container",
        "write": {
            "operations_per_second": 250.0,
            "errors_per_second": 2.0,
            "bytes_per_second": 1.2e9,
            "latency_p50_seconds": write["latency_p50_seconds"],
            "latency_p99_seconds": write["latency_p99_seconds"],
            "latency_max_seconds": 0.03125,
            "latency_above_range": false,
        },
        "open": {
            "operations_per_second": 6.0,
            "errors_per_second": 3.0,
            "latency_p50_seconds": last["open"]["latency_p50_seconds"],
            "latency_p99_seconds": last["open"]["latency_p99_seconds"],
            "latency_max_seconds": last["open"]["latency_max_seconds"],
            "latency_above_range": false,
        },
    });
    assert_eq!(*last, stable);
}

#[test]
fn who_did_nothing_has_no_operation() {
    let mut document = document(true);
    let workloads = document["workloads"].as_array().unwrap();
    assert_eq!(workloads.len(), 8);
    let idle = json!({ "namespace": "", "pod": "", "container": "ssh.service", "kind": "unit" });
    assert!(workloads.contains(&idle), "{document}");
    document["workloads"][0]["unlink"] = Value::Null;
    assert!(!faults(Form::Io, &document).is_empty(), "what is left out is never null: {document}");
}

#[test]
fn what_is_off_is_told_by_its_domain() {
    let (earlier, later) = node();
    let document = printed(&earlier, &without_vfs(later), &selection(false));
    // Only the data of the domain `block` remains.
    let mut rest = document["workloads"].as_array().unwrap().iter();
    assert!(rest.all(|row| row["devices"].is_array() && row["fsync"].is_null()), "{document}");
    assert_eq!(document["domains"][1]["up"], false);
    assert_eq!(document["domains"][1]["reason"], "the kernel has no BTF");
}

#[test]
fn requests_are_told_by_device_and_kind() {
    let document = document(false);
    let rows = document["workloads"].as_array().unwrap();
    let kernel = rows.iter().find(|row| row["container"] == "kernel").unwrap();
    let write = &kernel["devices"][0]["write"];
    let stable = json!([{
        "device": "vda",
        "write": {
            "operations_per_second": 20.0,
            "errors_per_second": 0.0,
            "bytes_per_second": 327_680.0,
            "latency_p50_seconds": write["latency_p50_seconds"],
            "latency_p99_seconds": write["latency_p99_seconds"],
            "latency_max_seconds": write["latency_max_seconds"],
            "latency_above_range": false,
            "queued_seconds_per_second": 0.0045,
        },
    }]);
    assert_eq!(kernel["devices"], stable);
}

#[test]
fn an_operation_beyond_the_range_is_marked_as_such() {
    let later = snapshot(2, vec![flushing(workload("", "", "w"), &[70_000_000_000])]);
    let document = printed(&snapshot(1, vec![]), &later, &selection(false));
    let fsync = &document["workloads"][0]["fsync"];
    assert_eq!(fsync["latency_max_seconds"], 32.0);
    assert_eq!(fsync["latency_above_range"], true);
}
