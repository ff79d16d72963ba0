//! Packets that another CPU processes than the one that receives them (RPS), and that wait for its softirq.

use std::net::UdpSocket;
use std::time::Duration;

use sysprobe_agent::bpf::Loader;
use sysprobe_agent::config::Config;
use sysprobe_agent::domain::rxpath::Rxpath;
use sysprobe_agent::domain::traits::{Domain as _, Start as _};
use sysprobe_agent::host::Facts;
use sysprobe_agent::plan::{Decision, Plan};
use sysprobe_agent::probe::{AttachMode, program_set};

use super::delays::add_rules;
use super::loads::Transport;
use super::support::attach_modes::kernel;
use super::support::network::Wire;
use super::support::process::cpus;
use super::support::{figure, left_out, until};
use super::{Stage, assert_nothing_lost, right};

/// Each packet is compared with this many rules.
const RULES: u32 = 5000;
const BURST: u32 = 400;
const ASKED: u32 = 40;
/// The time that the burst takes. A single packet takes some twenty microseconds.
const LEAST: Duration = Duration::from_millis(1);

/// Sends packets to a port without a socket. After the first one, sends fail because the port is unreachable.
fn burst() {
    let socket = UdpSocket::bind("0.0.0.0:0").expect("a free port");
    for number in 0..BURST {
        drop(socket.send_to(&number.to_ne_bytes(), (right(), 9)));
    }
}

/// Makes the first CPU process what the server receives, slowly. Returns that CPU and one that is left for
/// programs.
fn steer(stage: &Stage) -> Option<(usize, usize)> {
    let [busy, other, ..] = cpus()[..] else {
        left_out("a softirq on another CPU", "there is one CPU only");
        return None;
    };
    if !add_rules(&stage.wire.right, RULES) || !stage.wire.right.steer("wire", busy) {
        left_out("a busy softirq", "no iptables, or the kernel does not steer packets (CONFIG_RPS)");
        return None;
    }
    Some((busy, other))
}

fn assert_wait_is_told(stage: &Stage, other: usize) {
    let server = stage.there().echo(Transport::Tcp, right(), || {});
    server.move_to(other);
    stage.here().ask_after(right(), ASKED, &[other], burst);
    for (watcher, path) in stage.received(Transport::Tcp, u64::from(ASKED)) {
        let each_ns = path.until("ip");
        let name = watcher.mode.name();
        figure(&format!("until ip by {name}: {each_ns} ns each"));
        path.assert_complete();
        assert!(Duration::from_nanos(each_ns) >= LEAST, "by {name}: {each_ns} ns");
    }
    assert_nothing_lost(&stage.watchers);
}

/// Other packets, each of which is compared with all rules, occupy the same softirq. A virtual device is seen
/// before that.
#[test]
fn a_softirq_that_is_busy_has_the_time_between_the_device_and_ip() {
    let stage = Stage::new("softirq");
    if let Some((_, other)) = steer(&stage) {
        assert_wait_is_told(&stage, other);
    }
}

/// As with hardware drivers, GRO merges packets at the device, and they are steered afterwards.
#[test]
fn packets_that_are_steered_after_gro_have_the_wait_for_the_other_cpu_between_the_device_and_ip() {
    // Before 5.13, `gro` of a veth device is a flag without effect.
    if kernel() < (5, 13) {
        left_out("GRO", "veth devices have none");
        return;
    }
    let Some(stage) = Stage::steered("steered") else {
        left_out("steering", "the kernel has none (CONFIG_RPS)");
        return;
    };
    // If the device segments for the sender, GRO is skipped.
    let Wire { left, right, .. } = &stage.wire;
    if !left.offload("wire", &["tso", "off"]) || !right.offload("wire", &["gro", "on"]) {
        left_out("GRO", "there is no ethtool");
        return;
    }
    if let Some((_, other)) = steer(&stage) {
        assert_wait_is_told(&stage, other);
    }
}

/// Loads the programs without an agent, with room for this many packets.
fn start(packets: u32) -> (AttachMode, Rxpath) {
    let config = Config::default();
    let facts = Facts::collect(&config);
    let mut plan = Plan::new(&facts, &config);
    plan.sizes.packets = packets;
    let Some(Decision::On(candidates)) = plan.decision("rxpath") else {
        panic!("{:?}", plan.decision("rxpath"))
    };
    let loader = Loader::new(&facts.btf_path);
    let mut refused = Vec::new();
    for candidate in candidates {
        let set = program_set("rxpath", candidate.mode).expect("a candidate is in the table");
        match Rxpath::start(&loader, set, candidate, &plan) {
            Ok(rxpath) => return (candidate.mode, rxpath),
            Err(error) => refused.push(format!("{}: {error}", candidate.mode.name())),
        }
    }
    panic!("the kernel takes none: {refused:?}")
}

/// A request waits for a softirq while others arrive, with room for one packet: the table is always full.
#[test]
fn a_packet_whose_arrival_another_has_overwritten_is_counted_as_such() {
    let stage = Stage::new("overwritten");
    let Some((_, other)) = steer(&stage) else { return };
    let (mode, rxpath) = start(1);
    let count = |reason: &str| {
        rxpath.losses().into_iter().filter(|lost| lost.reason == reason).map(|lost| lost.count).sum::<u64>()
    };
    let server = stage.there().echo(Transport::Tcp, right(), || {});
    server.move_to(other);
    // The number depends on how soon the other CPU runs its softirqs.
    let mut asked = 0;
    let overwritten = until("the arrival of a request is overwritten", || {
        stage.here().ask_amid(right(), ASKED, &[other], burst);
        asked += ASKED;
        let overwritten = count("arrival_overwritten");
        (overwritten > 0).then_some(overwritten)
    });
    figure(&format!("{}: {overwritten} overwritten of {asked}", mode.name()));
    assert_eq!(count("no_device"), 0, "each of them had been seen");
    // The agents, which have room for more packets, lost none.
    stage.received(Transport::Tcp, u64::from(asked));
}
