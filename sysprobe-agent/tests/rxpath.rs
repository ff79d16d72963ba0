//! The delays of received data, caused at known stages and measured by every attach mode of this kernel at
//! the same time. Stages that an attach mode cannot distinguish are merged there.

#[path = "rxpath/delays.rs"]
mod delays;
#[path = "rxpath/loads.rs"]
mod loads;
#[path = "rxpath/nginx.rs"]
mod nginx;
#[path = "rxpath/path.rs"]
mod path;
#[path = "rxpath/readers.rs"]
mod readers;
#[path = "rxpath/share.rs"]
mod share;
#[path = "rxpath/steering.rs"]
mod steering;
mod support;

use std::fs;
use std::net::IpAddr;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use sysprobe_agent::snapshot::Snapshot;
use sysprobe_common::rxpath::RxpathLoss;

use loads::{Pieces, Transport};
use path::Path;
use support::attach_modes::{Watcher, kernel, watchers};
use support::cgroup::Cgroup;
use support::network::{LEFT, RIGHT, SteeredDevice, Wire};
use support::place::Place;
use support::process::Load;
use support::totals::lost;
use support::{eventually, figure, left_out, shared};

const TIMES: u32 = 200;

/// The server's address.
fn right() -> IpAddr {
    RIGHT[0].parse().expect("an address")
}

/// A server and a client in their own cgroups and namespaces, and the agents. Only one test runs at a time,
/// because delays of one would disturb all.
pub(crate) struct Stage {
    pub(crate) watchers: Vec<Watcher>,
    pub(crate) wire: Wire,
    pub(crate) reader: Cgroup,
    pub(crate) asker: Cgroup,
    /// How many times process 1 had run on a CPU when the agents were ready.
    spared: u64,
}

impl Stage {
    /// The wire comes first: agents keep the CPUs busy while they start.
    pub(crate) fn new(name: &str) -> Self {
        let wire = Wire::alone(name);
        Self {
            watchers: watchers("rxpath"),
            wire,
            reader: Cgroup::new(&format!("{name}-reader")),
            asker: Cgroup::new(&format!("{name}-asker")),
            spared: spared(),
        }
    }

    /// Starts agents that find packet steering enabled on a device of the machine.
    pub(crate) fn steered(name: &str) -> Option<Self> {
        let device = SteeredDevice::new()?;
        let stage = Self::new(name);
        drop(device);
        Some(stage)
    }

    pub(crate) fn there(&self) -> Place<'_> {
        Place { cgroup: &self.reader, namespace: &self.wire.right }
    }

    pub(crate) fn here(&self) -> Place<'_> {
        Place { cgroup: &self.asker, namespace: &self.wire.left }
    }

    /// What each attach mode reports as received by the server, once it has reached `count`.
    pub(crate) fn received(&self, transport: Transport, count: u64) -> Vec<(&Watcher, Path)> {
        let all = self.watchers.iter().filter(|watcher| follows(watcher, transport));
        all.map(|watcher| (watcher, self.arrived(watcher, &self.reader, transport, count))).collect()
    }

    /// Waits until the path's count reaches `count`; it must not exceed it.
    fn arrived(&self, watcher: &Watcher, cgroup: &Cgroup, transport: Transport, count: u64) -> Path {
        let mut path = Path::default();
        // Read before the wait: process 1 goes on meanwhile, and the bound would grow.
        let unseen = unseen_at_most(self.spared);
        let all_is_read = eventually(|| {
            path = Path::of(&watcher.agent.snapshot(), cgroup, transport);
            path.count() + unseen >= count
        });
        path.show(watcher, cgroup);
        let mode = watcher.mode.name();
        assert!(
            all_is_read && path.count() <= count,
            "{} of {count} by {mode}, where {unseen} may be missing",
            path.count()
        );
        path
    }
}

/// The socket hash can hold UDP sockets only if their end is visible, and no tracepoint shows that.
fn follows(watcher: &Watcher, transport: Transport) -> bool {
    let snapshot = watcher.agent.snapshot();
    let reason = &snapshot.domain("rxpath").expect("a domain").reason;
    let follows = transport == Transport::Tcp || !reason.contains("inet_sock_destruct");
    if !follows {
        left_out(&format!("UDP by {}", watcher.mode.name()), "calls to inet_sock_destruct are not seen");
    }
    follows
}

/// How many messages of a test may be received while process 1 is interrupted, where no BPF program runs.
/// Kernels of Firecracker sandboxes exclude their supervisor (process 1) like this. In ftrace, a segment
/// arrived in a softirq that interrupted it; no program of any agent or tool ran meanwhile, and the kernel
/// did not count a missed run (seen on 6.18.44-fc-v669). Process 1 runs for at most 2 ms at a time, in which
/// these tests receive one message, rarely two: so as many may be missing as it has had turns on a CPU since.
fn unseen_at_most(since: u64) -> u64 {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").expect("a kernel");
    if release.contains("-fc-") { (spared() - since).max(2) } else { 0 }
}

/// How many times the threads of process 1 have run on a CPU.
fn spared() -> u64 {
    let threads = fs::read_dir("/proc/1/task").expect("it is there");
    let files = threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("schedstat")).ok());
    files.filter_map(|text| text.split_whitespace().nth(2)?.parse::<u64>().ok()).sum()
}

/// Allows two losses: packets of other connections that were not seen at a device, and packets that shared a
/// place with another packet. The counts show that none of ours is missing.
fn assert_nothing_lost(watchers: &[Watcher]) {
    for watcher in watchers {
        let snapshot: Snapshot = watcher.agent.snapshot();
        let may_happen = [RxpathLoss::NoDevice, RxpathLoss::ArrivalOverwritten];
        let others = RxpathLoss::ALL.into_iter().filter(|loss| !may_happen.contains(loss));
        for reason in others.map(RxpathLoss::reason) {
            assert_eq!(lost(&snapshot, "rxpath", reason), 0, "{reason} by {}", watcher.mode.name());
        }
    }
}

/// Sends `TIMES` requests, and waits for each answer.
fn ask(stage: &Stage, transport: Transport, address: &str) -> Load {
    let address: IpAddr = address.parse().expect("an address");
    let server = stage.there().echo(transport, address, || {});
    stage.here().ask(transport, address, TIMES, || {});
    server
}

/// Over a wire, for IPv4 and IPv6, TCP and UDP: each request is followed once, and so is each answer.
#[test]
fn each_request_is_followed_once_and_its_stages_make_up_the_whole() {
    let stage = Stage::new("once");
    for transport in [Transport::Tcp, Transport::Udp] {
        for (times, address) in [TIMES, 2 * TIMES].into_iter().zip(RIGHT) {
            let _server = ask(&stage, transport, address);
            for (watcher, path) in stage.received(transport, u64::from(times)) {
                path.assert_complete();
                stage.arrived(watcher, &stage.asker, transport, u64::from(times)).assert_complete();
            }
        }
    }
    assert_nothing_lost(&stage.watchers);
}

/// The loopback device is handled like any other.
#[test]
fn what_never_leaves_the_machine_is_followed_as_well() {
    let stage = Stage::new("loop");
    for transport in [Transport::Tcp, Transport::Udp] {
        let address: IpAddr = "127.0.0.1".parse().expect("an address");
        let _server = stage.there().echo(transport, address, || {});
        let near = Place { cgroup: &stage.asker, namespace: &stage.wire.right };
        near.ask(transport, address, TIMES, || {});
        for (_, path) in stage.received(transport, u64::from(TIMES)) {
            path.assert_complete();
        }
    }
    assert_nothing_lost(&stage.watchers);
}

/// A network card without `rx-vlan-offload` leaves the tag in the packet, in front of the IP header.
#[test]
fn what_has_a_vlan_tag_is_followed_as_well() {
    let stage = Stage::new("tagged");
    let Some(address) = stage.wire.tag() else {
        return left_out("VLAN tags", "the kernel has no VLANs (CONFIG_VLAN_8021Q), or there is no ethtool");
    };
    for transport in [Transport::Tcp, Transport::Udp] {
        let _server = ask(&stage, transport, address);
        for (_, path) in stage.received(transport, u64::from(TIMES)) {
            path.assert_complete();
        }
    }
    assert_nothing_lost(&stage.watchers);
}

/// GRO delivers merged segments as one packet, which arrives when GRO hands it on.
#[test]
fn segments_that_gro_puts_together_are_one_packet() {
    const SIZE: usize = 20_000;
    const NAP: Duration = Duration::from_millis(5);
    let stage = Stage::new("gro");
    let Wire { left, right: there, .. } = &stage.wire;
    let is_set = left.offload("wire", &["tso", "off", "gso", "off", "sg", "off"])
        && there.offload("wire", &["gro", "on"]);
    if !is_set {
        left_out("GRO", "there is no ethtool, or veth devices have none");
        return;
    }
    let _server = stage.there().read_late(right(), SIZE, NAP);
    let pieces = Pieces { size: SIZE, at_a_time: SIZE };
    stage.here().send_for_each_answer(right(), pieces, TIMES);
    let (came, received) = (there.packets_in("wire"), there.counters().get("IpInReceives"));
    figure(&format!("{came} packets came, IP got {received}"));
    // Before 5.13, veth devices ignore the `gro` flag.
    if kernel() < (5, 13) {
        left_out("GRO", "veth devices have none");
        return;
    }
    assert!(came > received * 2, "GRO has put few together");
    for (watcher, path) in stage.received(Transport::Tcp, u64::from(TIMES)) {
        path.assert_complete();
        let each_ns = path.until("read");
        assert!(Duration::from_nanos(each_ns) >= NAP, "by {}: {each_ns} ns", watcher.mode.name());
    }
    assert_nothing_lost(&stage.watchers);
}

/// TCP delivers these on other code paths than the data of an established connection.
#[test]
fn what_comes_with_the_handshake_or_to_a_closed_half_is_followed_from_when_it_is_readable() {
    let stage = Stage::new("ways");
    let (times, address) = (u64::from(TIMES), right());
    drop(ask(&stage, Transport::Tcp, RIGHT[0]));
    let received = stage.received(Transport::Tcp, times);
    // Before 6.3, this needs a function hook.
    let (tell, others): (Vec<_>, Vec<_>) = received.into_iter().partition(|(_, path)| path.tells("ready"));
    for (watcher, _) in others {
        left_out(watcher.mode.name(), "it does not see that a socket becomes readable");
    }
    let _server = stage.there().serve_connections(address);
    stage.here().ask_with_the_handshake(address, TIMES);
    let address: IpAddr = RIGHT[1].parse().expect("an address");
    for (watcher, _) in &tell {
        stage.arrived(watcher, &stage.reader, Transport::Tcp, 2 * times).assert_complete();
    }
    let has_read: &AtomicU64 = shared();
    let _server = stage.there().serve_half_closed(address, has_read);
    stage.here().tell(address, TIMES, has_read);
    for (watcher, _) in &tell {
        stage.arrived(watcher, &stage.reader, Transport::Tcp, 3 * times).assert_complete();
    }
    assert_nothing_lost(&stage.watchers);
}

/// A request that is read byte by byte counts once; data that is never read does not count.
#[test]
fn a_request_is_over_with_its_first_byte() {
    let stage = Stage::new("pieces");
    let address = right();
    let pieces = Pieces { size: 1000, at_a_time: 1 };
    let _server = stage.there().read_in_pieces(address, pieces);
    stage.here().send_for_each_answer(address, pieces, TIMES);
    for (_, path) in stage.received(Transport::Tcp, u64::from(TIMES)) {
        path.assert_complete();
    }
    let address: IpAddr = LEFT[0].parse().expect("an address");
    let deaf = Place { cgroup: &stage.asker, namespace: &stage.wire.left };
    let _deaf = deaf.never_read(address);
    let loud = Place { cgroup: &stage.reader, namespace: &stage.wire.right };
    loud.send_and_leave(address, 1000);
    for watcher in &stage.watchers {
        // The answers that the asker has read are one byte each.
        stage.arrived(watcher, &stage.asker, Transport::Tcp, u64::from(TIMES));
    }
    assert_nothing_lost(&stage.watchers);
}
