//! Connections that are not made: failed attempts, and accept queues that are full.

use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream};

use super::loads::PORT;
use super::support::attach_modes::{Watcher, watchers};
use super::support::cgroup::Cgroup;
use super::support::hidden::count_all;
use super::support::network::{RIGHT, Wire};
use super::support::place::{Flag, Place, sleep_forever};
use super::support::totals::{lost, missed_runs};
use super::support::{figure, left_out, until};
use super::{assert_nothing_lost, has_scan, tcp};

/// Needs functions that can be hooked; without them, the metric has no series.
fn counts_overflows(watcher: &Watcher) -> bool {
    let is_counted = watcher.agent.metrics().contains("sysprobe_tcp_accept_queue_overflows_total{");
    let programs = watcher.agent.snapshot().agent.programs;
    let is_its = |name: &str| matches!(name, "tcp_syn_in" | "tcp_syn_kp");
    assert_eq!(is_counted, programs.iter().any(|program| is_its(&program.program)));
    if !is_counted {
        left_out("overflows of accept queues", "functions cannot be hooked on this kernel");
    }
    is_counted
}

#[test]
fn a_connection_that_is_not_made_is_counted_with_its_reason() {
    count_all(fail_to_connect);
}

fn fail_to_connect() {
    let wire = Wire::new("refused");
    let watchers = watchers("tcp");
    let client = Cgroup::new("refused");
    let here = Place { cgroup: &client, namespace: &wire.left };
    wire.left.set("net.ipv4.tcp_syn_retries", "1");
    wire.right.set("net.ipv4.ip_forward", "1");
    // Packets to the first address get no answer, packets to the second get an ICMP error.
    let (silent, unreachable) = ("10.77.9.8", "10.77.9.9");
    for (kind, address) in [("blackhole", silent), ("unreachable", unreachable)] {
        wire.right.ip(&["route", "add", kind, address]);
        wire.left.ip(&["route", "add", address, "via", RIGHT[0]]);
    }
    let attempts = [
        (RIGHT[0], 3, ErrorKind::ConnectionRefused),
        (silent, 2, ErrorKind::TimedOut),
        (unreachable, 1, ErrorKind::HostUnreachable),
    ];
    for (address, times, kind) in attempts {
        here.run(|| {
            for _ in 0..times {
                let error = TcpStream::connect((address, PORT)).expect_err("there is no listener");
                assert_eq!(error.kind(), kind, "{address}");
            }
        })
        .finish();
    }
    let kernel = wire.left.counters();
    let counts = ["TcpActiveOpens", "TcpAttemptFails"].map(|name| kernel.get(name));
    assert_eq!(counts, [6, 6], "attempts and failures by the kernel");
    assert_nothing_lost(&watchers);
    for watcher in &watchers {
        let snapshot = watcher.agent.snapshot();
        let ours = tcp(&snapshot, &client);
        let name = watcher.mode.name();
        let (refused, missed) = (lost(&snapshot, "tcp", "storage_budget"), missed_runs(&snapshot, "tcp"));
        figure(&format!("by {name}: {refused} sockets without room, {missed} runs missed"));
        let reasons: Vec<_> =
            ours.connect_failures.iter().map(|(name, count)| (name.as_str(), *count)).collect();
        assert_eq!(
            (&reasons[..], ours.resets_received, ours.retransmitted_syns),
            (
                &[("refused", 3), ("timed_out", 2), ("unreachable", 1)][..],
                3,
                kernel.get("TcpExtTCPSynRetrans")
            ),
            "by {name}"
        );
        assert_eq!(ours.times.connect.count(), 0, "by {name}");
    }
}

#[test]
fn what_a_full_accept_queue_drops_is_counted_and_its_length_is_shown() {
    count_all(fill_accept_queue);
}

fn fill_accept_queue() {
    const CLIENTS: usize = 6;
    let wire = Wire::new("overflow");
    wire.right.set("net.core.somaxconn", "1");
    let watchers = watchers("tcp");
    let (server, client) = (Cgroup::new("overflow-server"), Cgroup::new("overflow-client"));
    let ready = Flag::new();
    let there = Place { cgroup: &server, namespace: &wire.right };
    let _server = there.run(|| {
        let _listener = TcpListener::bind((RIGHT[0], PORT)).expect("the address is ours");
        ready.set();
        sleep_forever();
    });
    ready.wait();
    let here = Place { cgroup: &client, namespace: &wire.left };
    let _clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            here.run(|| {
                drop(TcpStream::connect((RIGHT[0], PORT)).map(|_connection| sleep_forever()));
            })
        })
        .collect();
    until("some are dropped", || (wire.right.counters().get("TcpExtListenDrops") > 3).then_some(()));
    for watcher in &watchers {
        let name = watcher.mode.name();
        let (kernel, ours) = until("the counts stand still, and a scan has seen them", || {
            let before = wire.right.counters();
            let ours = tcp(&watcher.agent.snapshot(), &server);
            let is_seen = !has_scan(watcher) || ours.accept_drops == before.get("TcpExtListenDrops");
            (is_seen && before == wire.right.counters()).then_some((before, ours))
        });
        if counts_overflows(watcher) {
            assert_eq!(ours.accept_overflows, kernel.get("TcpExtListenOverflows"), "by {name}");
        }
        // The server repeats its SYN-ACK for a connection that finds no room.
        let sent_again = [kernel.get("TcpRetransSegs"), kernel.get("TcpExtTCPSynRetrans")];
        assert_eq!([ours.retransmitted_segments, ours.retransmitted_syns], sent_again, "by {name}");
        let shows_drops = watcher.agent.metrics().contains("sysprobe_tcp_accept_queue_drops_total{");
        assert_eq!(shows_drops, has_scan(watcher), "by {name}");
        if !has_scan(watcher) {
            continue;
        }
        let queue = (ours.sockets.accept_queue, ours.sockets.accept_queue_limit);
        assert_eq!(queue, (2, 2), "by {name}");
        assert!((ours.sockets.accept_queue_fullest - 1.0).abs() < f64::EPSILON, "by {name}");
        assert_eq!(ours.sockets.by_state.get("listen"), Some(&1), "by {name}");
    }
    assert_nothing_lost(&watchers);
}
