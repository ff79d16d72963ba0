//! Datagrams and drops of known loads in their own network namespaces, measured by every attach mode of this
//! kernel at the same time and compared with the kernel's counts in each namespace.

#[path = "net/drops.rs"]
mod drops;
#[path = "net/iperf.rs"]
mod iperf;
#[path = "net/readers.rs"]
mod readers;
mod support;

use std::io::Read;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use sysprobe_agent::snapshot::{NetSample, Snapshot, TrafficSample};

use support::attach_modes::watchers;
use support::cgroup::Cgroup;
use support::network::{LEFT, RIGHT, Wire};
use support::place::{Flag, Place};
use support::process::Load;
use support::shared;
use support::totals::{lost, workload};

const PORT: u16 = 5001;

/// The agent's numbers for a workload; zeros if it does not know the workload.
fn net(snapshot: &Snapshot, cgroup: &Cgroup) -> NetSample {
    workload(snapshot, &cgroup.name).and_then(|workload| workload.net.clone()).unwrap_or_default()
}

fn traffic(snapshot: &Snapshot, cgroup: &Cgroup, protocol: &str, family: &str) -> TrafficSample {
    let net = net(snapshot, cgroup);
    net.traffic.get(protocol).and_then(|families| families.get(family)).copied().unwrap_or_default()
}

/// A number of datagrams of the same size in bytes.
#[derive(Clone, Copy)]
struct Datagrams {
    count: u64,
    size: usize,
}

impl Datagrams {
    const fn bytes(self) -> u64 {
        self.count * self.size as u64
    }

    const fn sent(self) -> TrafficSample {
        TrafficSample {
            sent_bytes: self.bytes(),
            sent_packets: self.count,
            received_bytes: 0,
            received_packets: 0,
        }
    }

    const fn received(self) -> TrafficSample {
        TrafficSample {
            sent_bytes: 0,
            sent_packets: 0,
            received_bytes: self.bytes(),
            received_packets: self.count,
        }
    }
}

/// A load that reads datagrams.
struct Taker {
    load: Load,
    /// The number of datagrams that it has read.
    taken: &'static AtomicU64,
}

impl Taker {
    fn taken(&self) -> u64 {
        self.taken.load(Ordering::Acquire)
    }

    fn finish(self) {
        self.load.finish();
    }
}

/// Reads this many datagrams, then ends. Returns once it is ready.
fn taker(place: Place<'_>, address: &str, port: u16, datagrams: Datagrams) -> Taker {
    let (ready, taken) = (Flag::new(), shared::<AtomicU64>());
    let load = place.run(|| {
        let socket = UdpSocket::bind((address, port)).expect("the address is ours");
        ready.set();
        let mut buffer = [0; 2048];
        for _ in 0..datagrams.count {
            let size = socket.recv(&mut buffer).expect("a datagram");
            assert!(size == datagrams.size);
            taken.fetch_add(1, Ordering::Release);
        }
    });
    ready.wait();
    Taker { load, taken }
}

/// Sends them only a few ahead of the taker: then no queue drops one, however late the taker runs.
fn give(place: Place<'_>, from: &str, to: &str, port: u16, datagrams: Datagrams, taker: &Taker) {
    const AHEAD: u64 = 32;
    let before = taker.taken();
    place
        .run(|| {
            let socket = UdpSocket::bind((from, 0)).expect("the address is ours");
            socket.connect((to, port)).expect("a route");
            for number in 0..datagrams.count {
                while number >= taker.taken() - before + AHEAD {
                    std::thread::sleep(Duration::from_micros(100));
                }
                socket.send(&vec![b'd'; datagrams.size]).expect("it is taken");
            }
        })
        .finish();
}

#[test]
fn datagrams_are_counted_as_the_kernel_counts_them() {
    const DATAGRAMS: Datagrams = Datagrams { count: 300, size: 700 };
    let wire = Wire::new("datagrams");
    let watchers = watchers("net");
    for (version, family, names) in [
        (0, "ipv4", ["UdpOutDatagrams", "UdpInDatagrams"]),
        (1, "ipv6", ["Udp6OutDatagrams", "Udp6InDatagrams"]),
    ] {
        let giver = Cgroup::new(&format!("giver-{family}"));
        let getter = Cgroup::new(&format!("getter-{family}"));
        let there = Place { cgroup: &getter, namespace: &wire.right };
        let getting = taker(there, RIGHT[version], PORT, DATAGRAMS);
        give(
            Place { cgroup: &giver, namespace: &wire.left },
            LEFT[version],
            RIGHT[version],
            PORT,
            DATAGRAMS,
            &getting,
        );
        getting.finish();
        let kernel = [wire.left.counters().get(names[0]), wire.right.counters().get(names[1])];
        assert_eq!(kernel, [DATAGRAMS.count; 2]);
        for watcher in &watchers {
            let name = watcher.mode.name();
            let snapshot = watcher.agent.snapshot();
            assert_eq!(traffic(&snapshot, &giver, "udp", family), DATAGRAMS.sent(), "{family} by {name}");
            assert_eq!(
                traffic(&snapshot, &getter, "udp", family),
                DATAGRAMS.received(),
                "{family} by {name}"
            );
            assert_eq!(net(&snapshot, &giver).traffic.len(), 1, "{family} by {name}");
            assert_eq!(lost(&snapshot, "net", "call_table_full"), 0, "by {name}");
            assert_eq!(lost(&snapshot, "net", "unreadable_cgroup"), 0, "by {name}");
        }
    }
}

#[test]
fn without_version_4_everything_is_of_version_6() {
    const DATAGRAMS: Datagrams = Datagrams { count: 50, size: 1200 };
    let wire = Wire::new("only6");
    wire.drop_version_4();
    let watchers = watchers("net");
    let (giver, getter) = (Cgroup::new("only6-giver"), Cgroup::new("only6-getter"));
    let getting = taker(Place { cgroup: &getter, namespace: &wire.right }, RIGHT[1], PORT, DATAGRAMS);
    give(Place { cgroup: &giver, namespace: &wire.left }, LEFT[1], RIGHT[1], PORT, DATAGRAMS, &getting);
    getting.finish();
    for watcher in &watchers {
        let snapshot = watcher.agent.snapshot();
        for cgroup in [&giver, &getter] {
            let families = net(&snapshot, cgroup).traffic.remove("udp").expect("there were some");
            let families: Vec<_> = families.into_keys().collect();
            assert_eq!(families, ["ipv6"], "{} by {}", cgroup.name, watcher.mode.name());
        }
    }
}

#[test]
fn two_workloads_of_one_namespace_are_told_apart() {
    const FAST: Datagrams = Datagrams { count: 900, size: 100 };
    const SLOW: Datagrams = Datagrams { count: 200, size: 1000 };
    let wire = Wire::new("shared");
    let watchers = watchers("net");
    let takers = Cgroup::new("shared-takers");
    let workloads = [(Cgroup::new("shared-fast"), FAST, PORT), (Cgroup::new("shared-slow"), SLOW, PORT + 1)];
    let there = Place { cgroup: &takers, namespace: &wire.right };
    let taking = workloads.each_ref().map(|(_, datagrams, port)| taker(there, RIGHT[0], *port, *datagrams));
    std::thread::scope(|scope| {
        for ((cgroup, datagrams, port), taker) in workloads.iter().zip(&taking) {
            let here = Place { cgroup, namespace: &wire.left };
            scope.spawn(move || give(here, LEFT[0], RIGHT[0], *port, *datagrams, taker));
        }
    });
    taking.into_iter().for_each(Taker::finish);
    for watcher in &watchers {
        let snapshot = watcher.agent.snapshot();
        for (cgroup, datagrams, _) in &workloads {
            let ours = traffic(&snapshot, cgroup, "udp", "ipv4");
            assert_eq!(ours, datagrams.sent(), "{} by {}", cgroup.name, watcher.mode.name());
        }
        let ours = traffic(&snapshot, &takers, "udp", "ipv4");
        assert_eq!(ours.received_bytes, FAST.bytes() + SLOW.bytes(), "by {}", watcher.mode.name());
    }
}

#[test]
fn what_is_forwarded_is_counted_at_its_ends_only() {
    const DATAGRAMS: Datagrams = Datagrams { count: 250, size: 400 };
    let wire = Wire::new("routed");
    let (far, address) = wire.extend("routed");
    let watchers = watchers("net");
    let (giver, getter) = (Cgroup::new("routed-giver"), Cgroup::new("routed-getter"));
    let nobodys = |snapshot: &Snapshot| {
        ["kernel", "unknown"].map(|name| {
            let net = workload(snapshot, name).and_then(|workload| workload.net.as_ref());
            net.map(|net| net.traffic.clone()).unwrap_or_default()
        })
    };
    let before: Vec<_> = watchers.iter().map(|watcher| nobodys(&watcher.agent.snapshot())).collect();
    let getting = taker(Place { cgroup: &getter, namespace: &far }, address, PORT, DATAGRAMS);
    give(Place { cgroup: &giver, namespace: &wire.left }, LEFT[0], address, PORT, DATAGRAMS, &getting);
    getting.finish();
    assert!(wire.right.counters().get("IpForwDatagrams") >= DATAGRAMS.count);
    for (watcher, before) in watchers.iter().zip(before) {
        let (name, snapshot) = (watcher.mode.name(), watcher.agent.snapshot());
        assert_eq!(traffic(&snapshot, &giver, "udp", "ipv4"), DATAGRAMS.sent(), "by {name}");
        assert_eq!(traffic(&snapshot, &getter, "udp", "ipv4"), DATAGRAMS.received(), "by {name}");
        assert_eq!(nobodys(&snapshot), before, "by {name}");
    }
}

#[test]
fn pieces_peeks_and_empty_datagrams_count_as_in_the_kernel() {
    let wire = Wire::new("pieces");
    let watchers = watchers("net");
    let (giver, getter) = (Cgroup::new("pieces-giver"), Cgroup::new("pieces-getter"));
    let ready = Flag::new();
    let getting = Place { cgroup: &getter, namespace: &wire.right }.run(|| {
        let socket = UdpSocket::bind((RIGHT[0], PORT)).expect("the address is ours");
        ready.set();
        let mut buffer = [0; 2048];
        assert!(socket.peek(&mut buffer).expect("a datagram") == 60);
        assert!(socket.recv(&mut buffer).expect("a datagram") == 60);
        assert!(socket.recv(&mut buffer).expect("a datagram") == 0);
        socket.set_nonblocking(true).expect("it can");
        assert!(socket.recv(&mut buffer).is_err());
    });
    ready.wait();
    Place { cgroup: &giver, namespace: &wire.left }
        .run(|| {
            let socket = Socket::new(Domain::IPV4, Type::DGRAM, None).expect("a socket");
            let address: std::net::SocketAddr =
                (RIGHT[0].parse::<std::net::IpAddr>().expect("one"), PORT).into();
            socket.connect(&address.into()).expect("a route");
            for flags in [libc::MSG_MORE, libc::MSG_MORE, 0] {
                assert!(socket.send_with_flags(&[b'd'; 20], flags).is_ok_and(|sent| sent == 20));
            }
            assert!(socket.send(&[]).is_ok());
        })
        .finish();
    getting.finish();
    assert_eq!(wire.left.counters().get("UdpOutDatagrams"), 2);
    assert_eq!(wire.right.counters().get("UdpInDatagrams"), 2);
    for watcher in &watchers {
        let name = watcher.mode.name();
        let snapshot = watcher.agent.snapshot();
        let ours = [&giver, &getter].map(|cgroup| traffic(&snapshot, cgroup, "udp", "ipv4"));
        assert_eq!([ours[0].sent_packets, ours[0].sent_bytes], [2, 60], "by {name}");
        assert_eq!([ours[1].received_packets, ours[1].received_bytes], [2, 60], "by {name}");
    }
}

#[test]
fn a_socket_that_takes_both_versions_says_so_until_it_is_connected() {
    let wire = Wire::new("both");
    let watchers = watchers("net");
    let (giver, getter) = (Cgroup::new("both-giver"), Cgroup::new("both-getter"));
    let getting = taker(
        Place { cgroup: &getter, namespace: &wire.right },
        "::",
        PORT,
        Datagrams { count: 20, size: 10 },
    );
    let here = Place { cgroup: &giver, namespace: &wire.left };
    let ten = Datagrams { count: 10, size: 10 };
    give(here, "::", "::ffff:10.77.0.2", PORT, ten, &getting);
    give(here, "::", RIGHT[1], PORT, ten, &getting);
    getting.finish();
    for watcher in &watchers {
        let name = watcher.mode.name();
        let snapshot = watcher.agent.snapshot();
        assert_eq!(traffic(&snapshot, &giver, "udp", "ipv4"), ten.sent(), "by {name}");
        assert_eq!(traffic(&snapshot, &giver, "udp", "ipv6"), ten.sent(), "by {name}");
        let ours = traffic(&snapshot, &getter, "udp", "dual_stack");
        assert_eq!(ours, Datagrams { count: 20, size: 10 }.received(), "by {name}");
    }
}

/// Sends ICMP echo requests through a raw socket and reads the answers, each with a header of this many
/// bytes.
fn echo(cgroup: &Cgroup, wire: &Wire, version: usize, request: [u8; 8], header: usize) {
    let kinds = [(Domain::IPV4, Protocol::ICMPV4), (Domain::IPV6, Protocol::ICMPV6)];
    let (domain, protocol) = kinds[version];
    Place { cgroup, namespace: &wire.left }
        .run(|| {
            let socket = Socket::new(domain, Type::RAW, Some(protocol)).expect("a socket");
            let address: std::net::SocketAddr =
                (RIGHT[version].parse::<std::net::IpAddr>().expect("one"), 0).into();
            socket.connect(&address.into()).expect("a route");
            for _ in 0..ECHOES {
                assert!(socket.send(&request).expect("it is taken") == request.len());
                // Neighbour discovery uses the same protocol.
                loop {
                    let mut answer = [0_u8; 128];
                    let size = (&socket).read(&mut answer).expect("an answer");
                    if size == header + request.len() && matches!(answer[header], 0 | 129) {
                        break;
                    }
                }
            }
        })
        .finish();
}

const ECHOES: u64 = 5;

#[test]
fn echoes_are_icmp() {
    /// Type, code, checksum (set by the kernel for IPv6), identifier, sequence number.
    const REQUESTS: [[u8; 8]; 2] = [[8, 0, 0xf7, 0xff, 0, 0, 0, 0], [128, 0, 0, 0, 0, 0, 0, 0]];
    let wire = Wire::new("echoes");
    let watchers = watchers("net");
    // A raw IPv4 socket also gets the IP header.
    for (version, family, header) in [(0, "ipv4", 20), (1, "ipv6", 0)] {
        let cgroup = Cgroup::new(&format!("echoes-{family}"));
        echo(&cgroup, &wire, version, REQUESTS[version], header);
        for watcher in &watchers {
            let name = watcher.mode.name();
            let ours = traffic(&watcher.agent.snapshot(), &cgroup, "icmp", family);
            assert_eq!([ours.sent_packets, ours.sent_bytes], [ECHOES, ECHOES * 8], "{family} by {name}");
            assert!(ours.received_packets >= ECHOES, "{family} by {name}: {ours:?}");
            assert!(ours.received_bytes >= ECHOES * (header as u64 + 8), "{family} by {name}: {ours:?}");
        }
        let counts =
            watchers.iter().map(|watcher| traffic(&watcher.agent.snapshot(), &cgroup, "icmp", family));
        let counts: Vec<_> = counts.collect();
        assert!(counts.iter().all(|other| *other == counts[0]), "{family}: {counts:?}");
    }
}
