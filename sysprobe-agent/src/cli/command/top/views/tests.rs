//! The differences between the tables.

use super::*;
use crate::cli::command::top::selection::{Selection, rows};
use crate::cli::fixture::{flushing, node, sample, sched, snapshot, workload};

#[test]
fn a_table_can_be_sorted_by_what_it_is_sorted_by_at_first() {
    for view in View::ALL {
        assert!(view.sort_keys().contains(&view.default_sort()), "{view:?}");
    }
}

#[test]
fn each_table_leads_to_every_other() {
    let round: Vec<_> = std::iter::successors(Some(View::Cpu), |view| Some(view.next())).take(5).collect();
    assert_eq!(round, [View::Cpu, View::Io, View::Net, View::Latency, View::Cpu]);
}

#[test]
fn io_counts_storage_operations_and_requests_only() {
    let (earlier, later) = node();
    let shown = |view| rows(&earlier, &later, &Selection { view, ..Selection::default() }).len();
    assert_eq!((shown(View::Cpu), shown(View::Io)), (6, 4));
}

#[test]
fn without_the_domain_every_workload_is_idle() {
    let running = || vec![sample(workload("", "", "w"), Some(sched(9, &[9], 9, 9)), None)];
    let io = Selection { view: View::Io, ..Selection::default() };
    assert!(rows(&snapshot(1, vec![]), &snapshot(2, running()), &io).is_empty());
}

#[test]
fn who_only_flushes_is_not_idle_in_either() {
    let flushed = || vec![flushing(workload("", "", "w"), &[1_000])];
    for view in [View::Cpu, View::Io] {
        let selection = Selection { view, ..Selection::default() };
        assert_eq!(rows(&snapshot(1, vec![]), &snapshot(2, flushed()), &selection).len(), 1);
    }
}
