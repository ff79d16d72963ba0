//! Packets that the kernel drops, and the reasons.

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicU64, Ordering};

use socket2::SockRef;
use sysprobe_agent::probe::{self, AttachMode};
use sysprobe_agent::snapshot::Snapshot;

use super::support::attach_modes::{Watcher, kernel, watchers};
use super::support::cgroup::{Cgroup, is_v1};
use super::support::network::{Counters, RIGHT, Wire};
use super::support::place::{Flag, Place};
use super::support::totals::workload;
use super::support::{figure, left_out, shared, until};
use super::{Datagrams, PORT, net, traffic};

/// The first kernel with drop reasons.
const NEEDED: (u32, u32) = (5, 17);

#[test]
fn whether_drops_are_counted_is_in_the_state_of_the_domain() {
    for watcher in watchers("net") {
        let snapshot = watcher.agent.snapshot();
        let state = snapshot.domain("net").expect("it is there");
        assert_eq!(state.sees(probe::DROP), kernel() >= NEEDED, "{state:?}");
    }
}

/// The agents that get drop reasons from this kernel and that know a socket's owner, by socket storage or
/// through the default hierarchy.
fn drop_watchers() -> Option<Vec<Watcher>> {
    if kernel() < NEEDED {
        left_out("drops with reasons", "the kernel has none before Linux 5.17");
        return None;
    }
    let mut watchers = watchers("net");
    if is_v1() {
        watchers.retain(|watcher| matches!(watcher.mode, AttachMode::TpBtf | AttachMode::Fentry));
    }
    Some(watchers)
}

/// A workload's drops for one reason.
fn drops(snapshot: &Snapshot, container: &str, reason: &str) -> u64 {
    let Some(net) = workload(snapshot, container).and_then(|workload| workload.net.as_ref()) else {
        return 0;
    };
    let is_meant = |number: &u32| snapshot.drop_reasons.get(number).is_some_and(|name| name == reason);
    net.drops.iter().filter(|(number, _)| is_meant(number)).map(|(_, packets)| packets).sum()
}

#[test]
fn a_flood_is_received_or_dropped_for_want_of_room() {
    const FLOOD: Datagrams = Datagrams { count: 20_000, size: 500 };
    let wire = Wire::new("flood");
    let Some(watchers) = drop_watchers() else { return };
    let (giver, getter) = (Cgroup::new("flood-giver"), Cgroup::new("flood-getter"));
    let (ready, flooded, received) = (Flag::new(), Flag::new(), shared::<AtomicU64>());
    let getting = Place { cgroup: &getter, namespace: &wire.right }.run(|| {
        let socket = UdpSocket::bind((RIGHT[0], PORT)).expect("the address is ours");
        SockRef::from(&socket).set_recv_buffer_size(16_384).expect("it can be small");
        socket.set_nonblocking(true).expect("it can");
        let mut buffer = [0; 2048];
        // Some agents learn a socket's owner only when a task uses the socket.
        assert!(socket.send_to(&[], (RIGHT[0], PORT)).is_ok() && socket.recv(&mut buffer).is_ok());
        ready.set();
        flooded.wait();
        loop {
            if let Err(error) = socket.recv(&mut buffer) {
                assert!(error.kind() == ErrorKind::WouldBlock);
                break;
            }
            received.fetch_add(1, Ordering::Release);
        }
    });
    ready.wait();
    Place { cgroup: &giver, namespace: &wire.left }
        .run(|| {
            let socket = UdpSocket::bind(("0.0.0.0", 0)).expect("any address");
            socket.connect((RIGHT[0], PORT)).expect("a route");
            for number in 0..FLOOD.count {
                // The wire's queue and the CPU's backlog hold only a thousand packets.
                if number % 500 == 0 {
                    until("the others have arrived", || {
                        let counters = Counters::of_process(getting.pid);
                        (counters.get("IpInReceives") >= number).then_some(())
                    });
                }
                socket.send(&[b'f'; FLOOD.size]).expect("it is taken");
            }
        })
        .finish();
    // The receiver has sent one to itself, too.
    let counters = until("all have arrived", || {
        let counters = wire.right.counters();
        (counters.get("IpInReceives") > FLOOD.count).then_some(counters)
    });
    flooded.set();
    getting.finish();
    let (received, refused) = (received.load(Ordering::Acquire), counters.get("UdpRcvbufErrors"));
    figure(&format!("flood of {}: {received} received, {refused} refused", FLOOD.count));
    assert_eq!(received + refused, FLOOD.count);
    for watcher in &watchers {
        let name = watcher.mode.name();
        let snapshot = watcher.agent.snapshot();
        let dropped = drops(&snapshot, &getter.name, "socket_rcvbuff");
        assert_eq!(dropped, refused, "by {name}: {:?}", net(&snapshot, &getter));
        let ours = traffic(&snapshot, &getter, "udp", "ipv4");
        assert_eq!(ours.received_packets, received + 1, "by {name}");
        assert_eq!(traffic(&snapshot, &giver, "udp", "ipv4"), FLOOD.sent(), "by {name}");
        assert_eq!(net(&snapshot, &giver).drops.values().sum::<u64>(), 0, "by {name}");
    }
}

#[test]
fn what_a_narrow_wire_refuses_is_its_senders() {
    const BURST: Datagrams = Datagrams { count: 500, size: 1200 };
    let wire = Wire::new("burst");
    wire.narrow();
    let Some(watchers) = drop_watchers() else { return };
    let giver = Cgroup::new("burst-giver");
    Place { cgroup: &giver, namespace: &wire.left }
        .run(|| {
            let socket = UdpSocket::bind(("0.0.0.0", 0)).expect("any address");
            socket.connect((RIGHT[0], PORT)).expect("a route");
            for _ in 0..BURST.count {
                // An error only means that no socket listens there, or that the queue is full.
                let _sent = socket.send(&[b'b'; BURST.size]);
            }
        })
        .finish();
    let dropped = until("nothing is on its way", || {
        let (backlog, dropped) = wire.left.queue("wire");
        (backlog == 0).then_some(dropped)
    });
    figure(&format!("burst of {}: {dropped} dropped", BURST.count));
    assert!(dropped > 0, "nothing was dropped");
    for watcher in &watchers {
        let snapshot = watcher.agent.snapshot();
        let ours: u64 = net(&snapshot, &giver).drops.values().sum();
        let name = watcher.mode.name();
        assert_eq!(ours, dropped, "by {name}: {:?}", net(&snapshot, &giver).drops);
        let gone = traffic(&snapshot, &giver, "udp", "ipv4").sent_packets - ours;
        assert_eq!(gone, wire.left.counters().get("UdpOutDatagrams"), "by {name}");
    }
}

#[test]
fn what_is_for_nobody_is_the_kernels() {
    const TIMES: u64 = 40;
    let wire = Wire::new("nobody");
    let Some(watchers) = drop_watchers() else { return };
    let before: Vec<u64> =
        watchers.iter().map(|watcher| drops(&watcher.agent.snapshot(), "kernel", "no_socket")).collect();
    let giver = Cgroup::new("nobody-giver");
    Place { cgroup: &giver, namespace: &wire.left }
        .run(|| {
            let socket = UdpSocket::bind(("0.0.0.0", 0)).expect("any address");
            for _ in 0..TIMES {
                socket.send_to(b"a server here?", (RIGHT[0], PORT)).expect("it is taken");
            }
        })
        .finish();
    until("all have arrived", || (wire.right.counters().get("UdpNoPorts") >= TIMES).then_some(()));
    for (watcher, before) in watchers.iter().zip(before) {
        let ours = drops(&watcher.agent.snapshot(), "kernel", "no_socket") - before;
        // Other processes may send to closed ports too.
        assert!(ours >= TIMES, "{ours} by {}", watcher.mode.name());
    }
}
