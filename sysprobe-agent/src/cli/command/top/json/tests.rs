//! The JSON document.

use serde_json::{Value, json};

use super::*;
use crate::cli::fixture::{node, pod, sample, snapshot, without_cpu, without_vfs, workload};
use crate::cli::rows::{NetworkRow, ReceivedRow, SortKey, TcpRow};
use crate::cli::schema::proof;
use crate::snapshot::{NetSample, TcpSample};

/// The printed document of a window, checked against its schema.
pub(super) fn printed(earlier: &Snapshot, later: &Snapshot, selection: &Selection) -> Value {
    let line = line(earlier, later, selection, "agent at /run/a").unwrap();
    assert_eq!(line.matches('\n').count(), 1, "one document per line");
    proof::parse(selection.view.command(), &line)
}

fn document(sort: SortKey) -> Value {
    let (earlier, later) = node();
    printed(&earlier, &later, &Selection { sort, ..Selection::default() })
}

/// With every number, with none, and without workloads.
#[test]
fn every_table_is_what_its_schema_says() {
    let (earlier, later) = node();
    let received = rxpath(&later);
    let nothing = snapshot(12, vec![sample(workload("", "", "idle.service"), None, None)]);
    for view in View::ALL {
        for pods in [true, false] {
            let selection = Selection { view, all: true, pods, ..Selection::default() };
            assert_ne!(printed(&earlier, &received, &selection)["workloads"], json!([]));
            printed(&earlier, &without_cpu(without_vfs(later.clone())), &selection);
            assert_eq!(printed(&nothing, &nothing, &selection)["workloads_total"], 1);
            assert_eq!(
                printed(&snapshot(1, vec![]), &snapshot(2, vec![]), &selection)["workloads"],
                json!([])
            );
        }
    }
}

/// Every workload with data in every domain of the network.
fn rxpath(later: &Snapshot) -> Snapshot {
    let mut later = later.clone();
    for sample in &mut later.workloads {
        sample.rxpath = Some(pod::requests());
        sample.tcp = Some(TcpSample::default());
        sample.net = Some(NetSample::default());
    }
    later
}

#[test]
fn the_document_has_its_fixed_fields() {
    let document = document(SortKey::Throttled);
    assert_eq!(document["version"], 2);
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

/// A row in which no two numbers are the same.
fn row() -> Row {
    let (earlier, later) = node();
    let mut row = selection::rows(&earlier, &later, &Selection::default()).swap_remove(0);
    let some = |number: u32| Some(f64::from(number));
    let tcp = TcpRow {
        segment_rate: some(4),
        retransmit_rate: some(18),
        retransmitted_ratio: some(5),
        srtt_p50: some(6),
        srtt_p99: some(7),
        connect_p99: some(8),
        failure_rate: some(9),
        reset_rate: some(10),
        accept_drop_rate: some(11),
        established: Some(12),
        accept_queue: some(13),
    };
    row.network =
        Some(NetworkRow { received_rate: some(1), sent_rate: some(2), drop_rate: some(3), tcp: Some(tcp) });
    row.received =
        Some(ReceivedRow { rate: some(14), p50: some(15), p99: some(16), max: Some(f64::INFINITY) });
    row.wait_p99 = some(17);
    row
}

fn fields<W: Serialize>(document: W) -> Value {
    let mut fields = serde_json::to_value(document).unwrap();
    for who in ["namespace", "pod", "container", "kind"] {
        assert!(fields.as_object_mut().unwrap().remove(who).is_some(), "{who}: {fields}");
    }
    fields
}

#[test]
fn the_network_has_each_number_under_its_name() {
    let expected = json!({
        "received_bytes_per_second": 1.0,
        "sent_bytes_per_second": 2.0,
        "drops_per_second": 3.0,
        "tcp_sent_segments_per_second": 4.0,
        "tcp_retransmitted_ratio": 5.0,
        "tcp_srtt_p50_seconds": 6.0,
        "tcp_srtt_p99_seconds": 7.0,
        "tcp_connect_p99_seconds": 8.0,
        "tcp_connect_failures_per_second": 9.0,
        "tcp_resets_per_second": 10.0,
        "tcp_accept_drops_per_second": 11.0,
        "tcp_established_sockets": 12,
        "tcp_accept_queue_fullest": 13.0,
    });
    assert_eq!(fields(NetworkDocument::new(&row())), expected);
}

#[test]
fn latencies_have_each_number_under_their_names() {
    let row = row();
    let of = |operation| row.operation(operation).and_then(|of| of.p99);
    let expected = json!({
        "received_per_second": 14.0,
        "received_p50_seconds": 15.0,
        "received_p99_seconds": 16.0,
        "received_max_seconds": 32.0,
        "received_above_range": true,
        "wait_p99_seconds": 17.0,
        "read_p99_seconds": of(Operation::Read),
        "write_p99_seconds": of(Operation::Write),
        "fsync_p99_seconds": of(Operation::Fsync),
        "disk_p99_seconds": row.requests().and_then(|of| of.p99),
        "tcp_srtt_p99_seconds": 7.0,
        "tcp_connect_p99_seconds": 8.0,
    });
    assert_eq!(fields(LatencyDocument::new(&row)), expected);
}
