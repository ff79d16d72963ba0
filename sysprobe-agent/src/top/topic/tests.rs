//! What the tables differ in.

use super::{
    super::{
        fixture::{flushing, node, sample, sched, snapshot, workload},
        rows::{Selection, rows},
    },
    *,
};

#[test]
fn a_table_can_be_sorted_by_what_it_is_sorted_by_at_first() {
    for topic in Topic::ALL {
        assert!(topic.sort_keys().contains(&topic.default_sort()), "{topic:?}");
    }
}

#[test]
fn each_table_leads_to_every_other() {
    let round: Vec<_> = std::iter::successors(Some(Topic::Cpu), |topic| Some(topic.next())).take(5).collect();
    assert_eq!(round, [Topic::Cpu, Topic::Io, Topic::Net, Topic::Latency, Topic::Cpu]);
}

#[test]
fn io_counts_storage_operations_and_requests_only() {
    let (earlier, later) = node();
    let shown = |topic| rows(&earlier, &later, &Selection { topic, ..Selection::default() }).len();
    assert_eq!((shown(Topic::Cpu), shown(Topic::Io)), (6, 4));
}

#[test]
fn without_the_domain_every_workload_is_idle() {
    let running = || vec![sample(workload("", "", "w"), Some(sched(9, &[9], 9, 9)), None)];
    let io = Selection { topic: Topic::Io, ..Selection::default() };
    assert!(rows(&snapshot(1, vec![]), &snapshot(2, running()), &io).is_empty());
}

#[test]
fn who_only_flushes_is_not_idle_in_either() {
    let flushed = || vec![flushing(workload("", "", "w"), &[1_000])];
    for topic in [Topic::Cpu, Topic::Io] {
        let selection = Selection { topic, ..Selection::default() };
        assert_eq!(rows(&snapshot(1, vec![]), &snapshot(2, flushed()), &selection).len(), 1);
    }
}
