//! Causes a delay in one place, and checks which stage shows it.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::{IpAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use super::loads::Transport;
use super::path::Path;
use super::support::attach_modes::Watcher;
use super::support::cgroup::{Cgroup, Quota};
use super::support::network::Namespace;
use super::support::place::Place;
use super::support::process::{self, Load, cpus};
use super::support::{figure, left_out};
use super::{Stage, TIMES, assert_nothing_lost, right};

/// Checks that the stage that ends with `point` has a delay of `at_least` for each request. The other stages
/// take microseconds.
fn assert_delayed(received: &[(&Watcher, Path)], point: &str, at_least: Duration) {
    for (watcher, path) in received {
        let name = watcher.mode.name();
        let each_ns = path.until(point);
        figure(&format!("until {point} by {name}: {each_ns} ns each"));
        path.assert_complete();
        assert!(Duration::from_nanos(each_ns) >= at_least, "by {name}: {each_ns} ns");
        // A reader that waits for seconds finds its memory in no cache.
        path.assert_others_take_less(point, at_least.max(Duration::from_nanos(each_ns / 2)));
    }
}

/// The reader sleeps between being notified and reading.
#[test]
fn a_reader_that_is_busy_has_the_time_between_running_and_reading() {
    const NAP: Duration = Duration::from_millis(5);
    let stage = Stage::new("busy");
    for transport in [Transport::Tcp, Transport::Udp] {
        let _server = stage.there().echo(transport, right(), || thread::sleep(NAP));
        stage.here().ask(transport, right(), TIMES, || {});
        assert_delayed(&stage.received(transport, u64::from(TIMES)), "read", NAP);
    }
    assert_nothing_lost(&stage.watchers);
}

/// A load with a higher weight occupies the reader's CPU.
#[test]
fn a_reader_whose_cpu_is_taken_has_the_time_between_being_woken_and_running() {
    const ASKED: u32 = 40;
    let stage = Stage::new("hog");
    let all = cpus();
    let hog = Cgroup::new("rx-hog");
    hog.set_weight_high();
    stage.reader.set_weight_low();
    let server = stage.there().echo(Transport::Tcp, right(), || {});
    server.move_to(all[0]);
    let _hog = Load::running(&hog, &all[..1], process::spin);
    stage.here().ask(Transport::Tcp, right(), ASKED, || thread::sleep(Duration::from_micros(7300)));
    assert_delayed(&stage.received(Transport::Tcp, u64::from(ASKED)), "run", Duration::from_millis(1));
    assert_nothing_lost(&stage.watchers);
}

/// Another thread of its cgroup has used up the quota.
#[test]
fn a_reader_without_quota_has_the_time_between_being_woken_and_running() {
    let stage = Stage::new("quota");
    stage.reader.set_quota(Quota { quota_us: 20_000, period_us: 100_000 });
    // Whatever else runs, it soon has its quota and is throttled for the rest of the period.
    stage.reader.set_weight_high();
    let server = stage.there().echo(Transport::Tcp, right(), || {});
    server.move_to(cpus()[0]);
    let _sibling = Load::running(&stage.reader, &cpus()[..1], process::spin);
    stage.here().ask(Transport::Tcp, right(), TIMES, || thread::sleep(Duration::from_micros(7300)));
    assert_delayed(&stage.received(Transport::Tcp, u64::from(TIMES)), "run", Duration::from_millis(1));
    for watcher in &stage.watchers {
        let snapshot = watcher.agent.snapshot();
        let workload = super::support::totals::workload(&snapshot, &stage.reader.name).expect("it is known");
        let causes = workload.sched.as_ref().and_then(|sched| sched.causes);
        if let Some(causes) = causes {
            assert!(causes.throttled_ns > causes.total_ns() / 2, "{causes:?}");
        }
    }
    assert_nothing_lost(&stage.watchers);
}

/// Each packet is compared with fifteen thousand rules before it reaches TCP.
#[test]
fn thousands_of_rules_have_the_time_between_the_device_and_tcp() {
    const RULES: u32 = 15_000;
    /// A rule takes some nanoseconds. All of them take longer than a virtual CPU that was idle takes to run
    /// again.
    const AT_LEAST_NS: u64 = 2 * RULES as u64;
    let stage = Stage::new("rules");
    if !add_rules(&stage.wire.right, RULES) {
        left_out("thousands of rules", "there is no iptables");
        return;
    }
    // Each side has a CPU of its own, if there are two: a wakeup on another CPU takes a different time.
    let (first, last) = (cpus()[0], cpus()[cpus().len() - 1]);
    // A virtual machine's idle CPU may take long to run again, and longer if it was idle for longer.
    let awake = Cgroup::new("rx-awake");
    stage.reader.set_weight_high();
    let _awake = Load::running(&awake, &[first], process::spin);
    let mut asked = 0;
    let mut ask = || {
        let server = stage.there().echo(Transport::Tcp, right(), || {});
        server.move_to(first);
        stage.here().ask_after(right(), TIMES, &[last], || {});
        asked += u64::from(TIMES);
        stage.received(Transport::Tcp, asked)
    };
    // The other stages depend on the load of the machine, so one good attempt of three is enough.
    let is_told = (0..3).any(|_| {
        assert!(add_rules(&stage.wire.right, 0), "no rules");
        let [earlier, without] = [ask(), ask()];
        assert!(add_rules(&stage.wire.right, RULES), "many rules");
        let [between, with] = [ask(), ask()];
        (0..with.len()).all(|at| {
            let moved = with[at].1.since(&between[at].1).moved_from(&without[at].1.since(&earlier[at].1));
            figure(&format!("{}: {moved:?}", with[at].0.mode.name()));
            // Where the point `tcp` is not visible, the delay shows up to `ready`.
            let has_tcp = |(name, _): &(String, u64)| {
                name.ends_with("_to_tcp") || name.ends_with("_to_ready") && !name.starts_with("tcp")
            };
            let (to_tcp, others): (Vec<_>, Vec<_>) = moved.into_iter().partition(has_tcp);
            to_tcp[0].1 >= AT_LEAST_NS && others.iter().all(|(_, moved)| *moved < to_tcp[0].1)
        })
    });
    assert!(is_told, "three times, rules took no time, or another stage took longer, too");
    assert_nothing_lost(&stage.watchers);
}

/// Adds rules that match no packet. `false` if there is no iptables.
pub(super) fn add_rules(namespace: &Namespace, count: u32) -> bool {
    let mut rules = String::from("*filter\n");
    for number in 0..count {
        let (high, low) = (number / 250, number % 250);
        writeln!(rules, "-A INPUT -s 192.168.{high}.{low}/32 -j DROP").expect("room");
    }
    rules.push_str("COMMIT\n");
    let mut restore = Command::new("ip");
    restore.args(["netns", "exec", &namespace.name, "iptables-legacy-restore"]);
    let Ok(mut child) = restore.stdin(Stdio::piped()).stderr(Stdio::null()).spawn() else { return false };
    let mut input = child.stdin.take().expect("a pipe");
    if input.write_all(rules.as_bytes()).is_err() {
        drop(child.wait());
        return false;
    }
    drop(input);
    child.wait().is_ok_and(|status| status.success())
}

/// A forwarded packet passes a narrow link between two devices. Its time starts at the first device.
#[test]
fn a_packet_that_is_forwarded_has_come_with_its_first_device() {
    const FORWARDED: u32 = 40;
    /// The port of the discard service, where nothing listens.
    const DISCARD: u16 = 9;
    let stage = Stage::new("forward");
    let (far, address) = stage.wire.extend("rx");
    // Two datagrams in front of each request are more than a burst. Unless the sender is stopped in between,
    // the request waits for at least 25 ms.
    let shape = ["root", "tbf", "rate", "400kbit", "burst", "1600", "limit", "100000"];
    assert!(
        stage.wire.right.tc(&[&["qdisc", "replace", "dev", "further"], &shape[..]].concat()),
        "tbf is there"
    );
    let address: IpAddr = address.parse().expect("an address");
    let there = Place { cgroup: &stage.reader, namespace: &far };
    let _server = there.echo(Transport::Tcp, address, || {});
    stage.here().ask_after(address, FORWARDED, &cpus(), || {
        let socket = UdpSocket::bind("0.0.0.0:0").expect("a free port");
        for _ in 0..2 {
            socket.send_to(&[0; 1400], (address, DISCARD)).expect("it is taken");
        }
    });
    assert_delayed(&stage.received(Transport::Tcp, u64::from(FORWARDED)), "tcp", Duration::from_millis(5));
    assert_nothing_lost(&stage.watchers);
}
