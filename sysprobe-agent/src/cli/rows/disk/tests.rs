//! Requests between two samples.

use super::*;
use crate::cli::fixture::{VDA, requests, sample, workload};
use crate::cli::rows::tests::one_row;

const MS: u64 = 1_000_000;
const SDB: &str = "sdb";

fn with(devices: Vec<(&str, DeviceSample)>) -> WorkloadSample {
    let devices = devices.into_iter().map(|(name, sample)| (name.to_owned(), sample));
    let block = BlockSample { devices: devices.collect() };
    WorkloadSample { block: Some(block), ..sample(workload("shop", "db-0", "postgres"), None, None) }
}

#[test]
fn numbers_are_differences_over_the_window_by_device_and_together() {
    let old = DeviceSample { write: requests(&[900 * MS], 4_096, 100 * MS), ..DeviceSample::default() };
    let new = DeviceSample {
        write: requests(&[900 * MS, MS, MS, MS], 16_384, 102 * MS),
        flush: requests(&[4 * MS; 2], 0, 0),
        ..DeviceSample::default()
    };
    let other = DeviceSample { read: requests(&[2 * MS], 4_096, 0), ..DeviceSample::default() };
    let row = one_row(Some(with(vec![(VDA, old)])), with(vec![(VDA, new), (SDB, other)]));
    let disk = row.disk.expect("there were requests");
    assert_eq!((disk.all.rate, disk.all.byte_rate), (Some(3.0), Some(8_192.0)));
    assert!(disk.all.max.is_some_and(|max| (0.004..0.005).contains(&max)), "the earlier one is not in it");
    let names: Vec<_> = disk.devices.iter().map(|device| device.name.as_str()).collect();
    assert_eq!(names, ["sdb", "vda"]);
    let write = disk.devices[1].of(Operation::Write);
    assert_eq!((write.requests.rate, write.queued), (Some(1.5), Some(0.001)));
    let flush = disk.devices[1].of(Operation::Flush);
    assert_eq!((flush.requests.rate, flush.requests.byte_rate, flush.queued), (Some(1.0), None, None));
}

#[test]
fn totals_that_went_backwards_are_new() {
    let old = DeviceSample { read: requests(&[MS; 9], 9, 9), ..DeviceSample::default() };
    let new = DeviceSample { read: requests(&[MS; 2], 2, 2), ..DeviceSample::default() };
    let row = one_row(Some(with(vec![(VDA, old)])), with(vec![(VDA, new)]));
    assert_eq!(row.disk.expect("there were requests").all.rate, Some(1.0));
}

#[test]
fn without_the_domain_there_is_nothing() {
    assert_eq!(one_row(None, sample(workload("", "", "a"), None, None)).disk, None);
}
