//! A machine in a window of two seconds.

use super::*;
use crate::cli::command::use_report::fixture::{SECOND, node, window};
use crate::cli::fixture::{snapshot, workload};
use crate::snapshot::{MemoryLevels, MemorySample, WorkloadKind};

fn measure(report: &UseReport, resource: &str, what: &str) -> Measure {
    let mut found = report.lines.iter().filter(|line| line.resource == resource && line.what == what);
    found.next().unwrap_or_else(|| panic!("{resource}: {what}")).clone()
}

#[test]
fn numbers_are_differences_over_the_window_and_name_who_is_behind() {
    let (earlier, later) = window();
    let report = UseReport::new(&earlier, &later);
    let busy = measure(&report, "CPU", "busy");
    assert_eq!((busy.value, busy.is_alarming(), busy.sort), (Some(0.95), true, Sort::Utilisation));
    let behind = busy.behind.expect("the one with most");
    assert_eq!((&*behind.who.container, behind.amount), (crate::cli::fixture::ID, 1.0));
    assert_eq!(measure(&report, "CPU", "stolen by the hypervisor").value, Some(0.025));
    let used = measure(&report, "memory", "in use");
    assert_eq!((used.value, used.is_alarming()), (Some(0.75), false));
    assert_eq!(measure(&report, "memory", "pages swapped").value, Some(5.0));
    let killed = measure(&report, "memory", "OOM kills");
    assert_eq!((killed.value, killed.is_alarming()), (Some(0.5), true));
    let disk = measure(&report, "disk vda", "busy");
    assert_eq!((disk.value, disk.is_alarming()), (Some(0.5), false));
    let waiting = measure(&report, "disk vda", "requests at a time");
    assert_eq!((waiting.value, waiting.is_alarming()), (Some(6.0), true));
    let beyond = measure(&report, "network", "backlog drops");
    assert_eq!((beyond.value, beyond.is_alarming()), (Some(1.0), true));
}

#[test]
fn a_link_without_a_speed_has_its_traffic() {
    let (earlier, later) = window();
    let report = UseReport::new(&earlier, &later);
    let of_speed = measure(&report, "link eth0", "in use");
    assert_eq!((of_speed.value, of_speed.unit), (Some(0.4), Unit::Share), "the busier direction");
    let without = measure(&report, "link eth1", "in use");
    assert_eq!((without.value, without.unit), (Some(1500.0), Unit::BytesPerSecond));
}

#[test]
fn what_is_not_told_is_missing_and_what_went_backwards_is_unknown() {
    let (mut earlier, mut later) = window();
    std::mem::swap(&mut earlier.node, &mut later.node);
    for (snapshot, at) in [(&mut earlier, 0), (&mut later, 2 * SECOND)] {
        snapshot.node.as_mut().expect("told").monotonic_ns = at;
    }
    let backwards = UseReport::new(&earlier, &later);
    assert_eq!(measure(&backwards, "memory", "OOM kills").value, None);
    assert_eq!(measure(&backwards, "disk vda", "busy").value, None);
    later.node = None;
    let untold = UseReport::new(&earlier, &later);
    assert!(!untold.is_told);
    assert_eq!(measure(&untold, "CPU", "busy").value, None);
    assert!(measure(&untold, "CPU", "busy").behind.is_some(), "pods are known all the same");
}

#[test]
fn nobody_is_behind_nothing() {
    let with = |seconds, node| Snapshot { node: Some(node), ..snapshot(seconds, vec![]) };
    let report = UseReport::new(&with(1, node(0)), &with(3, node(2 * SECOND)));
    assert!(report.lines.iter().all(|line| line.behind.is_none()), "{report:?}");
}

#[test]
fn memory_is_a_containers_or_a_units_and_not_that_of_a_slice() {
    let (earlier, mut later) = window();
    for (sample, bytes) in later.workloads.iter_mut().zip(1..) {
        let levels = MemoryLevels { usage_bytes: bytes, working_set_bytes: bytes, limit_bytes: None };
        sample.memory = Some(MemorySample { levels: Some(levels), ..MemorySample::default() });
    }
    let last = later.workloads.last_mut().expect("some");
    (last.workload, last.kind) = (workload("", "", "kubepods.slice"), WorkloadKind::Unit);
    let behind = measure(&UseReport::new(&earlier, &later), "memory", "in use").behind.expect("a workload");
    assert_eq!((&*behind.who.container, behind.amount), ("ssh.service", 7.0));
}
