//! The plain and the JSON form.

use serde_json::Value;

use crate::cli::command::latency::Latency;
use crate::cli::fixture::live::{json, plain};
use crate::cli::fixture::pod::{gone, node, pod, received, receiving, target, window};
use crate::cli::fixture::without;
use crate::cli::format;
use crate::cli::page::GONE;
use crate::cli::presenter::Width;
use crate::cli::target::Target;
use crate::snapshot::Snapshot;

fn text(earlier: &Snapshot, later: &Snapshot, width: Width) -> String {
    plain::<Latency>(earlier, later, &target(), width)
}

fn at(columns: usize) -> String {
    let (earlier, later) = window();
    text(&earlier, &later, Width::Columns(columns))
}

#[test]
fn a_window_at_several_widths() {
    insta::assert_snapshot!("eighty", at(80));
    insta::assert_snapshot!("forty", at(40));
    let (earlier, later) = window();
    insta::assert_snapshot!("full", text(&earlier, &later, Width::Full));
}

#[test]
fn stages_that_are_not_told_apart() {
    let merged = received(
        "tcp",
        &[("device_to_tcp", &[9_000; 4]), ("tcp_to_ready", &[800; 4]), ("ready_to_read", &[40_000; 4])],
    );
    let later = receiving(node(12, None, None), &merged);
    insta::assert_snapshot!("merged", text(&node(10, None, None), &later, Width::Columns(80)));
}

#[test]
fn nothing_is_wider_than_asked_for() {
    for columns in 64..=200 {
        let text = at(columns);
        assert!(text.lines().all(|line| format::width(line) <= columns), "{columns}: {text}");
    }
}

#[test]
fn what_cannot_be_shown_is_said_in_a_line() {
    let line = |earlier: &Snapshot, later: &Snapshot| {
        let text = text(earlier, later, Width::Columns(80));
        text.lines().skip(1).collect::<Vec<_>>().join("\n")
    };
    let (earlier, later) = window();
    assert_eq!(line(&later, &later), "Nothing that it received was read in this window.");
    let off = without(later.clone(), "rxpath", "this kernel has no BTF");
    assert_eq!(line(&earlier, &off), "rxpath is off: this kernel has no BTF");
    assert!(line(&later, &gone(node(14, None, None))).starts_with(GONE));
    let never = Target { who: pod("shop", "never"), container: None };
    let text = plain::<Latency>(&earlier, &later, &never, Width::Columns(80));
    assert_eq!(text, "shop/never has gone\n");
}

#[test]
fn scripts_get_stages_sums_and_all_waits() {
    let (earlier, later) = window();
    let document = json::<Latency>(&earlier, &later, target());
    assert_eq!((&document["version"], &document["workload"]["containers"]), (&1.into(), &2.into()));
    let udp = serde_json::to_string_pretty(&document["received"][1]).expect("it was text");
    insta::assert_snapshot!("json", udp);
    assert_eq!(document["waits"]["causes"].as_array().map(Vec::len), Some(8));
    let nothing = json::<Latency>(&later, &later, target());
    assert_eq!(nothing["received"], Value::Array(Vec::new()));
    let off = json::<Latency>(&earlier, &without(later.clone(), "rxpath", "no BTF"), target());
    assert_eq!(off["received"], Value::Null);
    let last = json::<Latency>(&later, &gone(node(14, None, None)), target());
    assert_eq!(last["workload"]["gone"], true);
    let never = json::<Latency>(&earlier, &later, Target { who: pod("shop", "never"), container: None });
    assert_eq!((&never["received"], &never["waits"]), (&Value::Null, &Value::Null));
}
