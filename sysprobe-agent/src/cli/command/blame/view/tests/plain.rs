//! The plain form.

use serde_json::Value;

use crate::cli::command::blame::Blame;
use crate::cli::fixture::live::{json, plain};
use crate::cli::fixture::pod::{by_functions, gone, node, pod, target, window};
use crate::cli::fixture::without;
use crate::cli::format;
use crate::cli::page::GONE;
use crate::cli::presenter::Width;
use crate::cli::target::Target;
use crate::snapshot::Snapshot;

fn text(earlier: &Snapshot, later: &Snapshot, target: &Target, width: Width) -> String {
    plain::<Blame>(earlier, later, target, width)
}

fn at(columns: usize) -> String {
    let (earlier, later) = window();
    text(&earlier, &later, &target(), Width::Columns(columns))
}

#[test]
fn a_window_at_several_widths() {
    insta::assert_snapshot!("eighty", at(80));
    insta::assert_snapshot!("forty", at(40));
    let (earlier, later) = window();
    insta::assert_snapshot!("full", text(&earlier, &later, &target(), Width::Full));
}

#[test]
fn nothing_is_wider_than_asked_for() {
    for columns in 60..=200 {
        let text = at(columns);
        assert!(text.lines().all(|line| format::width(line) <= columns), "{columns}: {text}");
    }
}

#[test]
fn what_cannot_be_shown_is_said_in_a_line() {
    let line = |earlier: &Snapshot, later: &Snapshot, target: &Target| {
        let text = text(earlier, later, target, Width::Columns(80));
        text.lines().skip(1).collect::<Vec<_>>().join("\n")
    };
    let (earlier, later) = window();
    assert_eq!(line(&earlier, &earlier, &target()), "It did not wait for a CPU in this window.");
    assert_eq!(
        line(&by_functions(earlier.clone()), &by_functions(later.clone()), &target()),
        "Waited 500 ms/s for a CPU: 6 waits, p50 40.5ms, p99 459ms.\n\
         What for is not known: fentry hooks cannot tell, tp_btf and raw_tp can."
    );
    assert!(line(&later, &gone(node(14, None, None)), &target()).starts_with(GONE));
    let never = Target { who: pod("shop", "never"), container: None };
    let text = text(&earlier, &later, &never, Width::Columns(80));
    assert_eq!(text, "shop/never has gone\n");
}

#[test]
fn scripts_get_causes_and_culprits_where_there_are_any() {
    let (earlier, later) = window();
    let waits =
        |earlier: &Snapshot, later: &Snapshot| json::<Blame>(earlier, later, target())["waits"].clone();
    let told = waits(&earlier, &later);
    assert_eq!(told["causes"].as_array().map(Vec::len), Some(8));
    assert_eq!(told["culprits"].as_array().map(Vec::len), Some(3));
    let untold = waits(&by_functions(earlier.clone()), &by_functions(later.clone()));
    assert_eq!((&untold["count"], &untold["causes"]), (&6.into(), &Value::Null));
    assert_eq!(waits(&later, &later)["count"], 0);
    assert_eq!(waits(&earlier, &without(later.clone(), "sched", "no BTF")), Value::Null);
    assert_eq!(json::<Blame>(&later, &gone(node(14, None, None)), target())["workload"]["gone"], true);
    let never = json::<Blame>(&earlier, &later, Target { who: pod("shop", "never"), container: None });
    assert_eq!((&never["workload"]["gone"], &never["waits"]), (&true.into(), &Value::Null));
}
