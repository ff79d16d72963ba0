//! The columns of `sysprobe top --view latency`: the latencies of all kinds of waits, side by side.

use sysprobe_common::vfs::Operation;

use super::cpu::WAIT99;
use super::storage::length;
use super::{Column, Content, trend};
use crate::cli::format;
use crate::cli::rows::{ReceivedRow, Row, SortKey};

/// In the order in which they are shown.
pub(in crate::cli::command::top) static LATENCY: [Column; 11] = [
    Column {
        title: "RX/s",
        width: 6,
        sort: Some(SortKey::Received),
        rank: 5,
        extra: false,
        help: "requests timed, device to reader",
        content: Content::Text(|row| received(row, |rx| rx.rate, format::count)),
    },
    Column {
        title: "RX50",
        width: 7,
        sort: Some(SortKey::Received50),
        rank: 7,
        extra: true,
        help: "median from the device to the reader",
        content: Content::Text(|row| received(row, |rx| rx.p50, format::duration)),
    },
    Column {
        title: "RX99",
        width: 7,
        sort: Some(SortKey::Received99),
        rank: 0,
        extra: false,
        help: "p99 from the device to the reader",
        content: Content::Text(|row| received(row, |rx| rx.p99, format::duration)),
    },
    Column {
        title: "RXMAX",
        width: 7,
        sort: Some(SortKey::ReceivedMax),
        rank: 8,
        extra: true,
        help: "longest from device to reader",
        content: Content::Text(|row| received(row, |rx| rx.max, format::duration)),
    },
    WAIT99,
    Column {
        title: "READ99",
        width: 7,
        sort: Some(SortKey::Read99),
        rank: 4,
        extra: false,
        help: "p99 latency of file reads",
        content: Content::Text(|row| length(row, Operation::Read, |of| of.p99)),
    },
    Column {
        title: "FSYNC99",
        width: 8,
        sort: Some(SortKey::Fsync99),
        rank: 3,
        extra: false,
        help: "p99 fsync latency",
        content: Content::Text(|row| length(row, Operation::Fsync, |of| of.p99)),
    },
    Column {
        title: "DISK99",
        width: 7,
        sort: Some(SortKey::Disk99),
        rank: 6,
        extra: false,
        help: "p99 latency of disk requests",
        content: Content::Text(|row| {
            format::or_nothing(row.requests().and_then(|of| of.p99), format::duration)
        }),
    },
    Column {
        title: "SRTT99",
        width: 7,
        sort: Some(SortKey::Srtt99),
        rank: 2,
        extra: false,
        help: "p99 of smoothed round-trip times",
        content: Content::Text(|row| {
            format::or_nothing(row.tcp().and_then(|tcp| tcp.srtt_p99), format::duration)
        }),
    },
    Column {
        title: "CONN99",
        width: 7,
        sort: Some(SortKey::Connect99),
        rank: 9,
        extra: true,
        help: "p99 connect latency",
        content: Content::Text(|row| {
            format::or_nothing(row.tcp().and_then(|tcp| tcp.connect_p99), format::duration)
        }),
    },
    trend(10, false, "RX99 over time; each level is 3x"),
];

fn received(row: &Row, number: fn(&ReceivedRow) -> Option<f64>, show: impl Fn(f64) -> String) -> String {
    format::or_nothing(row.received.as_ref().and_then(number), show)
}
