//! The columns of `sysprobe io`: rates, latencies and bytes. The titles say `/s`, so that cells need not.

use sysprobe_common::vfs::Operation;

use super::{Column, Content, trend};
use crate::cli::format;
use crate::cli::rows::{OperationRow, Row, SortKey};

/// In the order in which they are shown.
pub(in crate::cli::command::top) static IO: [Column; 19] = [
    Column {
        title: "READ/s",
        width: 7,
        sort: Some(SortKey::Read),
        rank: 8,
        extra: false,
        help: "reads per second",
        content: Content::Text(|row| count(row, Operation::Read, |of| of.rate)),
    },
    Column {
        title: "READ B/s",
        width: 9,
        sort: Some(SortKey::ReadBytes),
        rank: 11,
        extra: true,
        help: "bytes read per second, k = 1000",
        content: Content::Text(|row| count(row, Operation::Read, |of| of.byte_rate)),
    },
    Column {
        title: "READ99",
        width: 7,
        sort: Some(SortKey::Read99),
        rank: 5,
        extra: false,
        help: "p99 read latency",
        content: Content::Text(|row| length(row, Operation::Read, |of| of.p99)),
    },
    Column {
        title: "WRITE/s",
        width: 8,
        sort: Some(SortKey::Write),
        rank: 7,
        extra: false,
        help: "writes per second",
        content: Content::Text(|row| count(row, Operation::Write, |of| of.rate)),
    },
    Column {
        title: "WRITE B/s",
        width: 10,
        sort: Some(SortKey::WriteBytes),
        rank: 10,
        extra: true,
        help: "bytes written per second",
        content: Content::Text(|row| count(row, Operation::Write, |of| of.byte_rate)),
    },
    Column {
        title: "WRITE99",
        width: 8,
        sort: Some(SortKey::Write99),
        rank: 4,
        extra: false,
        help: "p99 write latency",
        content: Content::Text(|row| length(row, Operation::Write, |of| of.p99)),
    },
    Column {
        title: "FSYNC/s",
        width: 8,
        sort: Some(SortKey::Fsync),
        rank: 2,
        extra: false,
        help: "fsync, fdatasync, msync, ...",
        content: Content::Text(|row| count(row, Operation::Fsync, |of| of.rate)),
    },
    Column {
        title: "FSYNC50",
        width: 8,
        sort: Some(SortKey::Fsync50),
        rank: 12,
        extra: true,
        help: "median fsync latency",
        content: Content::Text(|row| length(row, Operation::Fsync, |of| of.p50)),
    },
    Column {
        title: "FSYNC99",
        width: 8,
        sort: Some(SortKey::Fsync99),
        rank: 0,
        extra: false,
        help: "p99 fsync latency",
        content: Content::Text(|row| length(row, Operation::Fsync, |of| of.p99)),
    },
    Column {
        title: "DISK/s",
        width: 7,
        sort: Some(SortKey::Disk),
        rank: 9,
        extra: false,
        help: "requests to block devices",
        content: Content::Text(|row| {
            format::or_nothing(row.requests().and_then(|of| of.rate), format::count)
        }),
    },
    Column {
        title: "DISK B/s",
        width: 9,
        sort: Some(SortKey::DiskBytes),
        rank: 13,
        extra: true,
        help: "bytes of such requests",
        content: Content::Text(|row| {
            format::or_nothing(row.requests().and_then(|of| of.byte_rate), format::count)
        }),
    },
    Column {
        title: "DISK99",
        width: 7,
        sort: Some(SortKey::Disk99),
        rank: 3,
        extra: false,
        help: "p99 latency of such requests",
        content: Content::Text(|row| {
            format::or_nothing(row.requests().and_then(|of| of.p99), format::duration)
        }),
    },
    Column {
        title: "OPEN/s",
        width: 7,
        sort: Some(SortKey::Open),
        rank: 15,
        extra: true,
        help: "opens, including failed ones",
        content: Content::Text(|row| count(row, Operation::Open, |of| of.rate)),
    },
    Column {
        title: "CREATE/s",
        width: 9,
        sort: Some(SortKey::Create),
        rank: 14,
        extra: true,
        help: "names created: files, links, renames",
        content: Content::Text(|row| count(row, Operation::Create, |of| of.rate)),
    },
    Column {
        title: "UNLINK/s",
        width: 9,
        sort: Some(SortKey::Unlink),
        rank: 16,
        extra: true,
        help: "names removed",
        content: Content::Text(|row| count(row, Operation::Unlink, |of| of.rate)),
    },
    Column {
        title: "FAULT/s",
        width: 8,
        sort: Some(SortKey::Fault),
        rank: 17,
        extra: true,
        help: "major faults: reads of mapped files",
        content: Content::Text(|row| count(row, Operation::Fault, |of| of.rate)),
    },
    Column {
        title: "FAULT99",
        width: 8,
        sort: Some(SortKey::Fault99),
        rank: 18,
        extra: true,
        help: "p99 latency of such faults",
        content: Content::Text(|row| length(row, Operation::Fault, |of| of.p99)),
    },
    Column {
        title: "ERR/s",
        width: 6,
        sort: Some(SortKey::Errors),
        rank: 6,
        extra: false,
        help: "operations that failed",
        content: Content::Text(|row| {
            format::or_nothing(row.storage.and_then(|of| of.error_rate()), format::count)
        }),
    },
    trend(1, false, "FSYNC99 over time; each level is 3x"),
];

fn count(row: &Row, operation: Operation, number: fn(&OperationRow) -> Option<f64>) -> String {
    format::or_nothing(row.operation(operation).and_then(number), format::count)
}

pub(super) fn length(row: &Row, operation: Operation, number: fn(&OperationRow) -> Option<f64>) -> String {
    format::or_nothing(row.operation(operation).and_then(number), format::duration)
}
