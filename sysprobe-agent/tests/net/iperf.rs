//! iperf3's own report of the bytes that it sent and received.

use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::support::attach_modes::watchers;
use super::support::cgroup::Cgroup;
use super::support::network::{Namespace, RIGHT, Wire};
use super::support::process::inside;
use super::support::totals::workload;
use super::support::{figure, until};
use super::traffic;

/// The most that the two ends exchange over their control connection: parameters and results, as JSON.
const TALK: u64 = 16_384;

fn iperf(cgroup: &Cgroup, namespace: &Namespace, arguments: &[&str]) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &namespace.name, "iperf3"]).args(arguments).stdin(Stdio::null());
    inside(&mut command, cgroup);
    command
}

/// A server for one test, killed at the end.
struct Server(Child);

impl Server {
    fn start(cgroup: &Cgroup, wire: &Wire) -> Self {
        let mut command = iperf(cgroup, &wire.right, &["--server", "--one-off"]);
        let server = Self(command.stdout(Stdio::null()).spawn().expect("iperf3 can be started"));
        until("it listens", || wire.right.listens(5201).then_some(()));
        server
    }

    fn finish(mut self) {
        self.0.wait().expect("it ends");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn report(mut iperf: Command) -> Value {
    let output = iperf.output().expect("iperf3 can be started");
    assert!(output.status.success(), "iperf3: {}", String::from_utf8_lossy(&output.stdout));
    serde_json::from_slice(&output.stdout).expect("iperf3 writes JSON")
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number in iperf3's report: {value}"))
}

#[test]
fn bytes_of_a_stream_are_those_that_iperf_reports() {
    let wire = Wire::new("stream");
    let watchers = watchers("tcp");
    let (server, client) = (Cgroup::new("stream-server"), Cgroup::new("stream-client"));
    let serving = Server::start(&server, &wire);
    let arguments = ["--client", RIGHT[0], "--bitrate", "200M", "--bytes", "40M", "--json"];
    let report = report(iperf(&client, &wire.left, &arguments));
    serving.finish();
    // iperf3 ends the stream with a reset, which discards bytes in flight.
    let (read, written) =
        (number(&report["end"]["sum_received"]["bytes"]), number(&report["end"]["sum_sent"]["bytes"]));
    for watcher in &watchers {
        let snapshot = watcher.agent.snapshot();
        let of =
            |cgroup: &Cgroup| workload(&snapshot, &cgroup.name).and_then(|workload| workload.tcp.clone());
        let (client, server) = (of(&client).expect("it sent"), of(&server).expect("it received"));
        let ours = [client.ipv4.sent_bytes, server.ipv4.received_bytes];
        figure(&format!("by {}: ours {ours:?}, iperf3 {read} to {written}", watcher.mode.name()));
        for ours in ours {
            assert!(
                (read..written + TALK).contains(&ours),
                "{ours} of {read} to {written} by {}",
                watcher.mode.name()
            );
        }
    }
}

#[test]
fn datagrams_are_those_that_iperf_reports() {
    /// Each side begins with a datagram of four bytes.
    const HELLO: u64 = 4;
    let wire = Wire::new("iperf");
    let watchers = watchers("net");
    let (server, client) = (Cgroup::new("iperf-server"), Cgroup::new("iperf-client"));
    let serving = Server::start(&server, &wire);
    let arguments =
        ["--client", RIGHT[0], "--udp", "--bitrate", "20M", "--bytes", "4M", "--length", "1200", "--json"];
    let report = report(iperf(&client, &wire.left, &arguments));
    serving.finish();
    let sum = &report["end"]["sum"];
    let (packets, bytes) = (number(&sum["packets"]), number(&sum["bytes"]));
    for watcher in &watchers {
        let snapshot = watcher.agent.snapshot();
        let ours = traffic(&snapshot, &client, "udp", "ipv4");
        let counted = [ours.sent_packets, ours.sent_bytes];
        figure(&format!("by {}: ours {counted:?}, iperf3 {:?}", watcher.mode.name(), [packets, bytes]));
        assert_eq!(counted, [packets + 1, bytes + HELLO], "by {}", watcher.mode.name());
    }
}
