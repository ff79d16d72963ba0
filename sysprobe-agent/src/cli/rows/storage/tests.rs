//! Storage operations between two samples.

use super::*;
use crate::cli::fixture::{self, flushing, operation, sample, snapshot, workload};
use crate::cli::rows::tests::{one_row, row_between};
use crate::cli::rows::{Row, SortKey, of_workloads};
use crate::snapshot::SHED;

const MS: u64 = 1_000_000;

fn with(vfs: VfsSample) -> WorkloadSample {
    WorkloadSample { vfs: Some(vfs), ..sample(workload("shop", "db-0", "postgres"), None, None) }
}

fn of(row: &Row, of: Operation) -> OperationRow {
    *row.operation(of).expect("the domain is up")
}

#[test]
fn numbers_are_differences_over_the_window() {
    let before = VfsSample {
        write: operation(&[10 * MS; 4], 1, 4_096),
        fsync: operation(&[900 * MS], 0, 0),
        ..VfsSample::default()
    };
    let mut after = before.clone();
    after.write = operation(&[10 * MS; 10], 3, 24_096);
    after.fsync = operation(&[900 * MS, MS, MS, 4 * MS], 0, 0);
    let row = one_row(Some(with(before)), with(after));
    let write = of(&row, Operation::Write);
    assert_eq!((write.rate, write.error_rate, write.byte_rate), (Some(3.0), Some(1.0), Some(10_000.0)));
    let fsync = of(&row, Operation::Fsync);
    assert_eq!((fsync.rate, fsync.byte_rate), (Some(1.5), None));
    assert!(fsync.p50.is_some_and(|p50| (0.000_9..0.001_1).contains(&p50)), "{fsync:?}");
    assert!(fsync.p99.is_some_and(|p99| (0.003_6..0.004_4).contains(&p99)), "{fsync:?}");
    assert!(fsync.max.is_some_and(|max| (0.004..0.005).contains(&max)), "the earlier one is not in it");
    let storage = row.storage.expect("the domain is up");
    assert_eq!((storage.operation_rate(), storage.error_rate()), (Some(4.5), Some(1.0)));
}

#[test]
fn while_the_domain_is_paused_nothing_is_known() {
    let workloads = || vec![with(VfsSample::default())];
    let later = fixture::without(snapshot(12, workloads()), "vfs", SHED);
    let row = row_between(&snapshot(10, workloads()), &later);
    assert_eq!(row.operation(Operation::Read), None);
}

#[test]
fn where_faults_are_not_seen_their_numbers_are_unknown_and_the_sums_are_those_of_the_others() {
    let one = VfsSample { read: operation(&[MS; 4], 2, 0), ..VfsSample::default() };
    let of_mode = |mode: &str, unseen: &[&str]| {
        let mut later = snapshot(12, vec![with(one.clone())]);
        let vfs = later.domains.iter_mut().find(|domain| domain.name == "vfs").expect("it is there");
        (vfs.mode, vfs.unseen) = (mode.to_owned(), unseen.iter().map(ToString::to_string).collect());
        row_between(&snapshot(10, Vec::new()), &later).storage.expect("it is on")
    };
    for (mode, unseen, fault) in [
        ("fentry", &[][..], Some(0.0)),
        ("kprobe", &[], Some(0.0)),
        ("fentry", &["filemap_fault"], None),
        ("tp_btf", &[], None),
    ] {
        let storage = of_mode(mode, unseen);
        assert_eq!(storage.of(Operation::Fault).rate, fault, "{mode} without {unseen:?}");
        assert_eq!((storage.operation_rate(), storage.error_rate()), (Some(2.0), Some(1.0)), "{mode}");
    }
}

#[test]
fn what_did_not_happen_has_a_rate_of_zero_and_no_latency() {
    let row = one_row(None, with(VfsSample::default()));
    let read = of(&row, Operation::Read);
    assert_eq!((read.rate, read.error_rate, read.byte_rate), (Some(0.0), Some(0.0), Some(0.0)));
    assert_eq!((read.p50, read.p99, read.max), (None, None, None));
}

#[test]
fn without_the_domain_there_are_no_numbers() {
    let row = one_row(None, sample(workload("", "", "w"), None, None));
    assert_eq!(row.storage, None);
}

#[test]
fn an_operation_that_went_backwards_makes_all_of_them_new() {
    let before = VfsSample {
        read: operation(&[MS; 9], 0, 900),
        fsync: operation(&[5 * MS; 3], 0, 0),
        ..VfsSample::default()
    };
    let after = VfsSample {
        read: operation(&[MS; 10], 0, 1_000),
        fsync: operation(&[MS; 2], 0, 0),
        ..VfsSample::default()
    };
    let row = one_row(Some(with(before)), with(after));
    assert_eq!(of(&row, Operation::Read).rate, Some(5.0));
    assert_eq!(of(&row, Operation::Fsync).rate, Some(1.0));
}

#[test]
fn every_workload_has_its_fsyncs_of_the_window() {
    let names = ["a", "b", "c"].map(|name| workload("", "", name));
    let [a, b, c] = &names;
    let earlier = snapshot(1, vec![flushing(a.clone(), &[MS]), flushing(b.clone(), &[MS])]);
    let later =
        vec![flushing(a.clone(), &[MS, 500 * MS]), flushing(b.clone(), &[MS]), sample(c.clone(), None, None)];
    let later = snapshot(3, later);
    let p99s: Vec<_> =
        of_workloads(&earlier, &later, |_| true).map(|row| row.number(SortKey::Fsync99)).collect();
    assert!(p99s[0].is_some_and(|p99| (0.45..0.55).contains(&p99)), "{p99s:?}");
    assert_eq!(p99s[1..], [None, None]);
}
