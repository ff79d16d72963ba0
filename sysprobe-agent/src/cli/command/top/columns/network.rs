//! The columns of `sysprobe net`: traffic, losses, round-trip times, and overloaded sockets.

use super::{Column, Content, alarming, trend};
use crate::cli::format::{self, NUMBER_WIDTH};
use crate::cli::rows::{NetworkRow, Row, SortKey, TcpRow};

/// Every user of a network notices when it loses one segment in a hundred.
const ALARMING_RETRANSMITTED_RATIO: f64 = 0.01;
/// Above this, the next connections find no room.
const ALARMING_ACCEPT_QUEUE: f64 = 0.9;

/// In the order in which they are shown.
pub(in crate::cli::command::top) static NET: [Column; 14] = [
    Column {
        title: "RX B/s",
        width: 7,
        sort: Some(SortKey::ReceivedBytes),
        rank: 1,
        extra: false,
        help: "payload received per second, k = 1000",
        content: Content::Text(|row| of(row, |net| net.received_rate, format::count)),
    },
    Column {
        title: "TX B/s",
        width: 7,
        sort: Some(SortKey::SentBytes),
        rank: 2,
        extra: false,
        help: "payload sent per second",
        content: Content::Text(|row| of(row, |net| net.sent_rate, format::count)),
    },
    Column {
        title: "SEG/s",
        width: 6,
        sort: Some(SortKey::Segments),
        rank: 8,
        extra: true,
        help: "TCP segments sent for the first time",
        content: Content::Text(|row| of_tcp(row, |tcp| tcp.segment_rate, format::count)),
    },
    Column {
        title: "RETR",
        width: NUMBER_WIDTH,
        sort: Some(SortKey::Retransmitted),
        rank: 3,
        extra: false,
        help: "retransmitted/new segments; ! from 1%",
        content: Content::Text(|row| {
            of_tcp(
                row,
                |tcp| tcp.retransmitted_ratio,
                |ratio| alarming(format::fine_percent(ratio), ratio >= ALARMING_RETRANSMITTED_RATIO),
            )
        }),
    },
    Column {
        title: "SRTT50",
        width: 7,
        sort: Some(SortKey::Srtt50),
        rank: 6,
        extra: false,
        help: "median round-trip time, smoothed",
        content: Content::Text(|row| of_tcp(row, |tcp| tcp.srtt_p50, format::duration)),
    },
    Column {
        title: "SRTT99",
        width: 7,
        sort: Some(SortKey::Srtt99),
        rank: 0,
        extra: false,
        help: "p99 round-trip time, smoothed",
        content: Content::Text(|row| of_tcp(row, |tcp| tcp.srtt_p99, format::duration)),
    },
    Column {
        title: "CONN99",
        width: 7,
        sort: Some(SortKey::Connect99),
        rank: 9,
        extra: true,
        help: "p99 connect latency",
        content: Content::Text(|row| of_tcp(row, |tcp| tcp.connect_p99, format::duration)),
    },
    Column {
        title: "FAIL/s",
        width: 7,
        sort: Some(SortKey::Failures),
        rank: 5,
        extra: false,
        help: "connections that could not be made",
        content: Content::Text(|row| of_tcp(row, |tcp| tcp.failure_rate, format::count)),
    },
    Column {
        title: "RST/s",
        width: 6,
        sort: Some(SortKey::Resets),
        rank: 10,
        extra: true,
        help: "resets sent and received",
        content: Content::Text(|row| of_tcp(row, |tcp| tcp.reset_rate, format::count)),
    },
    Column {
        title: "DROP/s",
        width: 7,
        sort: Some(SortKey::Drops),
        rank: 4,
        extra: false,
        help: "packets that the kernel dropped",
        content: Content::Text(|row| of(row, |net| net.drop_rate, format::count)),
    },
    Column {
        title: "SOCK",
        width: NUMBER_WIDTH,
        sort: Some(SortKey::Sockets),
        rank: 11,
        extra: true,
        help: "established TCP sockets, now",
        content: Content::Text(|row| {
            of_tcp(row, |tcp| tcp.established.map(|count| count as f64), format::count)
        }),
    },
    Column {
        title: "ACCQ",
        width: NUMBER_WIDTH,
        sort: Some(SortKey::AcceptQueue),
        rank: 12,
        extra: true,
        help: "the fullest accept queue; ! from 90%",
        content: Content::Text(|row| {
            of_tcp(
                row,
                |tcp| tcp.accept_queue,
                |full| alarming(format::percent(full), full >= ALARMING_ACCEPT_QUEUE),
            )
        }),
    },
    Column {
        title: "ACCDROP/s",
        width: 10,
        sort: Some(SortKey::AcceptDrops),
        rank: 13,
        extra: true,
        help: "SYNs and ACKs dropped by listeners",
        content: Content::Text(|row| of_tcp(row, |tcp| tcp.accept_drop_rate, format::count)),
    },
    trend(7, false, "SRTT99 over time; each level is 3x"),
];

fn of(row: &Row, number: fn(&NetworkRow) -> Option<f64>, show: impl Fn(f64) -> String) -> String {
    format::or_nothing(row.network.as_ref().and_then(number), show)
}

fn of_tcp(row: &Row, number: fn(&TcpRow) -> Option<f64>, show: impl Fn(f64) -> String) -> String {
    format::or_nothing(row.tcp().and_then(number), show)
}
