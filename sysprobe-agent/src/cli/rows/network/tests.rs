//! The network of a window.

use std::collections::BTreeMap;

use super::*;
use crate::cli::fixture::{snapshot, workload};
use crate::cli::rows::tests::row_between;
use crate::snapshot::{DomainState, HistogramSample, NetSample, WorkloadKind};

const MS: u64 = 1_000_000;

/// The row of a window of two seconds.
fn network(earlier: Option<&WorkloadSample>, later: &WorkloadSample) -> Option<NetworkRow> {
    let window = Window { seconds: 2.0, counts_operations: true, counts_faults: true, counts_drops: true };
    NetworkDone::of(earlier, later).map(|done| NetworkRow::of_window(&done, window))
}

fn sample(sent: u64, again: u64, srtt_ns: &[u64]) -> WorkloadSample {
    let ipv4 = TrafficSample { sent_packets: sent, sent_bytes: 1000 * sent, ..TrafficSample::default() };
    let ipv6 = TrafficSample { received_bytes: 10, received_packets: 1, ..TrafficSample::default() };
    let mut tcp = TcpSample { ipv4, ipv6, retransmitted_segments: again, ..TcpSample::default() };
    tcp.times.srtt = HistogramSample::of(srtt_ns);
    tcp.connect_failures = BTreeMap::from([("timeout".to_owned(), again), ("refused".to_owned(), 1)]);
    tcp.sockets.by_state = BTreeMap::from([("established".to_owned(), 7)]);
    let udp = TrafficSample { received_bytes: 100, ..TrafficSample::default() };
    let traffic = BTreeMap::from([("udp".to_owned(), BTreeMap::from([("ipv4".to_owned(), udp)]))]);
    let net = NetSample { traffic, drops: BTreeMap::from([(2, again), (6, 1)]) };
    WorkloadSample {
        tcp: Some(tcp),
        net: Some(net),
        ..WorkloadSample::new(workload("shop", "web", "server"), WorkloadKind::Container)
    }
}

#[test]
fn numbers_are_differences_over_the_window() {
    let row = network(Some(&sample(100, 1, &[MS])), &sample(300, 5, &[MS, 40 * MS])).expect("some");
    assert_eq!((row.sent_rate, row.received_rate, row.drop_rate), (Some(100_000.0), Some(0.0), Some(2.0)));
    let tcp = row.tcp.expect("on");
    assert_eq!((tcp.segment_rate, tcp.retransmitted_ratio), (Some(100.0), Some(0.02)));
    assert_eq!((tcp.failure_rate, tcp.established, tcp.accept_queue), (Some(2.0), Some(7), None));
    assert!((0.035..0.045).contains(&tcp.srtt_p50.expect("one in the window")), "{tcp:?}");
    assert_eq!(tcp.connect_p99, None);
}

#[test]
fn what_is_new_and_what_went_backwards_counts_from_zero() {
    for earlier in [None, Some(sample(1000, 50, &[MS]))] {
        let row = network(earlier.as_ref(), &sample(100, 2, &[MS])).expect("some");
        let tcp = row.tcp.expect("on");
        assert_eq!((row.received_rate, tcp.segment_rate), (Some(55.0), Some(50.0)));
        assert_eq!(tcp.retransmitted_ratio, Some(0.02));
    }
}

#[test]
fn where_drops_are_not_told_their_rate_is_unknown() {
    let of = |domain: DomainState| {
        let mut later = snapshot(12, vec![sample(300, 5, &[])]);
        later.domains.push(DomainState { name: "net".to_owned(), ..domain });
        row_between(&snapshot(10, Vec::new()), &later).network.expect("it has traffic").drop_rate
    };
    let on = DomainState { up: true, mode: "tp_btf".to_owned(), ..DomainState::default() };
    assert_eq!(of(on.clone()), Some(3.0));
    assert_eq!(of(DomainState { unseen: vec!["kfree_skb".to_owned()], ..on }), None, "before Linux 5.17");
    assert_eq!(of(DomainState::default()), None, "off");
}

#[test]
fn only_a_workload_that_listens_drops_connections() {
    let mut listening = sample(1, 0, &[]);
    let drops = |sample: &WorkloadSample| network(None, sample)?.tcp?.accept_drop_rate;
    assert_eq!(drops(&listening), None, "no socket listens, or the kernel has no iterator over sockets");
    let tcp = listening.tcp.as_mut().expect("on");
    tcp.sockets.accept_queue_limit = 128;
    assert_eq!(drops(&listening), Some(0.0));
    listening.tcp.as_mut().expect("on").accept_drops = 6;
    assert_eq!(drops(&listening), Some(3.0));
}

#[test]
fn without_the_domains_there_is_nothing() {
    let silent = WorkloadSample::new(workload("", "", "w"), WorkloadKind::Path);
    assert_eq!(network(None, &silent), None);
}
