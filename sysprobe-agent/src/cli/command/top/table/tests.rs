//! The plain tables.

use super::super::views::View;
use super::*;
use crate::cli::fixture::{node, sample, snapshot, without_cpu, without_vfs, workload};
use crate::cli::rows::SortKey;
use crate::cli::scope::Scope;

const SOURCE: &str = "agent at /run/sysprobe/agent.sock";

#[test]
fn a_window_reads_well_at_eighty_columns() {
    let (earlier, later) = node();
    let text = text(&earlier, &without_cpu(later), &Selection::default(), SOURCE, Width::Columns(80));
    assert!(text.lines().all(|line| format::width(line) <= 80));
    insta::assert_snapshot!(text);
}

#[test]
fn wide_has_everything_in_full() {
    let (earlier, later) = node();
    let all = Selection { all: true, ..Selection::default() };
    insta::assert_snapshot!(text(&earlier, &later, &all, SOURCE, Width::Full));
}

fn io() -> Selection {
    Selection { view: View::Io, sort: SortKey::Fsync99, ..Selection::default() }
}

#[test]
fn storage_at_eighty_columns_and_in_full() {
    let (earlier, later) = node();
    let narrow = text(&earlier, &later, &io(), SOURCE, Width::Columns(80));
    assert!(narrow.lines().all(|line| format::width(line) <= 80));
    insta::assert_snapshot!("storage_at_eighty_columns", narrow);
    insta::assert_snapshot!("storage_in_full", text(&earlier, &later, &io(), SOURCE, Width::Full));
}

#[test]
fn without_its_domain_storage_says_why() {
    let (earlier, later) = node();
    let text = text(&earlier, &without_vfs(later), &io(), SOURCE, Width::Columns(80));
    assert!(text.contains("\nvfs is off: the kernel has no BTF\n"), "{text}");
}

#[test]
fn without_rows_the_head_remains() {
    let text =
        text(&snapshot(1, vec![]), &snapshot(2, vec![]), &Selection::default(), SOURCE, Width::Columns(80));
    assert_eq!(
        text.lines().next(),
        Some("1.00s window, 0 of 0 workloads; agent at /run/sysprobe/agent.sock")
    );
    assert_eq!(text.lines().count(), 2);
}

#[test]
fn names_and_reasons_stay_on_their_line() {
    let mut later = snapshot(2, vec![sample(workload("", "", "evil\nname\x1b[2J"), None, None)]);
    later.domains[0].up = false;
    later.domains[0].reason = "two\nlines".to_owned();
    let all = Selection { all: true, ..Selection::default() };
    for width in [Width::Columns(80), Width::Full] {
        let text = text(&snapshot(1, vec![]), &later, &all, SOURCE, width);
        assert_eq!(text.lines().count(), 4);
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text}");
    }
}

#[test]
fn a_share_of_the_packets_is_told_where_their_times_are() {
    let mut later = snapshot(2, vec![]);
    later.agent.rx_followed_ratio = Some(1.0 / 64.0);
    let second = |view| {
        let selection = Selection { view, ..Selection::default() };
        let text = text(&snapshot(1, vec![]), &later, &selection, SOURCE, Width::Columns(80));
        text.lines().nth(1) == Some("1 of 64 packets followed")
    };
    assert_eq!(View::ALL.map(second), [false, false, false, true]);
}

#[test]
fn a_long_source_is_cut_where_columns_are() {
    let of = |width| {
        let source = "x".repeat(100);
        let [earlier, later] = [snapshot(1, vec![]), snapshot(2, vec![])];
        format::width(text(&earlier, &later, &Selection::default(), &source, width).lines().next().unwrap())
    };
    assert_eq!(of(Width::Columns(80)), 80);
    assert!(of(Width::Full) > 100);
}

#[test]
fn a_namespace_without_pods_is_said_to_have_none() {
    let (earlier, later) = node();
    let scope = Scope { namespace: Some("nowhere".to_owned()), ..Scope::default() };
    let selection = Selection { scope, pods: true, ..Selection::default() };
    let text = text(&earlier, &later, &selection, "test", Width::Full);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.first(), Some(&"2.00s window, 0 of 0 workloads of namespace nowhere; test"));
    assert_eq!(lines.last(), Some(&"No pod here has namespace nowhere."));
}
