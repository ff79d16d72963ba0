//! The columns of `sysprobe top`: CPU, throttling, waits, switches, and fsync, the storage operation that
//! callers wait for.

use sysprobe_common::vfs::Operation;

use super::{Column, Content, alarming, trend};
use crate::cli::format::{self, NUMBER_WIDTH};
use crate::cli::rows::{OperationRow, Row, SortKey};

/// Where kubernetes-mixin's alert `CPUThrottlingHigh` fires.
const ALARMING_THROTTLED_RATIO: f64 = 0.25;

pub(super) const WAIT99: Column = Column {
    title: "WAIT99",
    width: 7,
    sort: Some(SortKey::P99),
    rank: 1,
    extra: false,
    help: "p99 wait for a CPU",
    content: Content::Text(|row| format::or_nothing(row.wait_p99, format::duration)),
};

/// In the order in which they are shown.
pub(in crate::cli::command::top) static CPU: [Column; 15] = [
    Column {
        title: "CPU",
        width: 5,
        sort: Some(SortKey::Cpu),
        rank: 0,
        extra: false,
        help: "CPUs in use, on average",
        content: Content::Text(|row| format::or_nothing(row.cpu_cores, format::cores)),
    },
    Column {
        title: "QUOTA",
        width: 6,
        sort: None,
        rank: 9,
        extra: true,
        help: "CPUs allowed (cpu.max)",
        content: Content::Text(|row| format::or_nothing(row.quota_cores, format::cores)),
    },
    Column {
        title: "THROT",
        width: 6,
        sort: Some(SortKey::Throttled),
        rank: 2,
        extra: false,
        help: "throttled quota periods; ! from 25%",
        content: Content::Text(throttled_cell),
    },
    Column {
        title: "THRTIME",
        width: NUMBER_WIDTH + 2,
        sort: None,
        rank: 10,
        extra: true,
        help: "time throttled, per second",
        content: Content::Text(|row| {
            format::or_nothing(row.throttled_rate, |rate| format!("{}/s", format::duration(rate)))
        }),
    },
    Column {
        title: "WAIT50",
        width: 7,
        sort: Some(SortKey::P50),
        rank: 4,
        extra: false,
        help: "median wait for a CPU",
        content: Content::Text(|row| format::or_nothing(row.wait_p50, format::duration)),
    },
    WAIT99,
    Column {
        title: "WAITMAX",
        width: 8,
        sort: Some(SortKey::Max),
        rank: 3,
        extra: false,
        help: "longest wait for a CPU",
        content: Content::Text(|row| format::or_nothing(row.wait_max, format::duration)),
    },
    Column {
        title: "WAITING",
        width: 7,
        sort: None,
        rank: 11,
        extra: true,
        help: "tasks waiting, on average",
        content: Content::Text(|row| format::or_nothing(row.waiting, format::cores)),
    },
    Column {
        title: "SWITCH",
        width: 7,
        sort: Some(SortKey::Switches),
        rank: 5,
        extra: false,
        help: "context switches, of both kinds",
        content: Content::Text(|row| format::or_nothing(row.switch_rate(), format::rate)),
    },
    Column {
        title: "VOL",
        width: NUMBER_WIDTH,
        sort: None,
        rank: 12,
        extra: true,
        help: "voluntary context switches",
        content: Content::Text(|row| format::or_nothing(row.voluntary_rate, format::rate)),
    },
    Column {
        title: "INVOL",
        width: NUMBER_WIDTH,
        sort: None,
        rank: 6,
        extra: false,
        help: "involuntary context switches",
        content: Content::Text(|row| format::or_nothing(row.involuntary_rate, format::rate)),
    },
    Column {
        title: "FSYNC",
        width: NUMBER_WIDTH,
        sort: Some(SortKey::Fsync),
        rank: 14,
        extra: true,
        help: "fsync, fdatasync, msync, ...",
        content: Content::Text(|row| format::or_nothing(fsync(row, |fsync| fsync.rate), format::rate)),
    },
    Column {
        title: "FSYNC99",
        width: 8,
        sort: Some(SortKey::Fsync99),
        rank: 7,
        extra: true,
        help: "p99 fsync latency",
        content: Content::Text(|row| format::or_nothing(fsync(row, |fsync| fsync.p99), format::duration)),
    },
    Column {
        title: "KIND",
        width: 9,
        sort: None,
        rank: 13,
        extra: true,
        help: "pod, container, unit, cgroup, ...",
        content: Content::Text(|row| row.kind.name().to_owned()),
    },
    trend(8, true, "WAIT99 over time; each level is 3x"),
];

fn throttled_cell(row: &Row) -> String {
    let is_alarming = row.throttled_ratio.is_some_and(|ratio| ratio >= ALARMING_THROTTLED_RATIO);
    alarming(format::or_nothing(row.throttled_ratio, format::percent), is_alarming)
}

fn fsync(row: &Row, number: fn(&OperationRow) -> Option<f64>) -> Option<f64> {
    row.operation(Operation::Fsync).and_then(number)
}
