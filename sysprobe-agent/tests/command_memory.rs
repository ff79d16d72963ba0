//! A command runs in the agent's container and within its memory limit (`kubectl exec ... top`), so its data
//! of a big node must leave room for the agent.

mod support;

use std::fs;
use std::io::{BufRead, BufReader};
use std::mem;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::routing::get;
use serde::Serialize;
use support::cgroup::Cgroup;
use support::{command, figure, process};
use sysprobe_agent::snapshot::{PodSample, PodTotals, Snapshot, VERSION, Workload, WorkloadSample};
use tokio::net::UnixListener;

/// A recording of a real node, whose pods serve requests, write and wait.
const RECORDED: &str = include_str!("screens/later.json");
const WORKLOADS: usize = 1_000;
/// A placeholder for each pod's name.
const POD: &str = "a-pod-of-this-name";
const MIB: u64 = 1 << 20;
/// The agent of such a node takes up to 130 MiB of the chart's 256 MiB.
const ROOM: u64 = 112 * MIB;
/// As many windows as samples are kept, and a few more.
const WINDOWS: usize = 19;

/// A node with a thousand pods that all do everything, with counters that keep growing.
struct BigNode {
    /// The node without workloads and pods.
    node: Snapshot,
    /// One pod's activity in a second, and its totals so far.
    one: WorkloadSample,
    row: WorkloadSample,
    pod: PodTotals,
}

impl BigNode {
    fn new() -> Self {
        let mut node: Snapshot = serde_json::from_str(RECORDED).expect("a snapshot");
        node.version = VERSION;
        let (rows, pods) = (mem::take(&mut node.workloads), mem::take(&mut node.pods));
        // The row with the most data in it.
        let mut one = rows.into_iter().max_by_key(|row| text(row).len()).expect("there are some");
        let mut pod = pods.into_iter().max_by_key(|pod| text(pod).len()).expect("there are some");
        (pod.namespace, pod.pod) = ("shop".into(), POD.into());
        one.workload = Workload { namespace: "shop".into(), pod: POD.into(), container: "server".into() };
        one.pod = Some(PodSample::default());
        Self { node, row: one.clone(), one, pod }
    }

    /// The next snapshot. Every counter grows, so that no two samples share a number.
    fn answer(&mut self) -> String {
        let now = sysprobe_agent::host::monotonic();
        self.node.monotonic_ns = u64::try_from(now.as_nanos()).expect("centuries");
        let (row, one) = (&mut self.row, &self.one);
        row.sched.as_mut().expect("it ran").add(one.sched.as_ref().expect("it ran"));
        row.vfs.as_mut().expect("it read").add(one.vfs.as_ref().expect("it read"));
        row.block.as_mut().expect("it wrote").add(one.block.as_ref().expect("it wrote"));
        row.rxpath.as_mut().expect("it received").add(one.rxpath.as_ref().expect("it received"));
        let each = |of_one: String| {
            let named = |number: usize| of_one.replace(POD, &format!("checkout-7d9c5b6f4-{number:05}"));
            format!("[{}]", (0..WORKLOADS).map(named).collect::<Vec<_>>().join(","))
        };
        let node =
            text(&self.node).replacen("\"workloads\":[]", &format!("\"workloads\":{}", each(text(row))), 1);
        node.replacen("\"pods\":[]", &format!("\"pods\":{}", each(text(&self.pod))), 1)
    }
}

fn text(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("JSON")
}

/// A child process that is killed with the test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn peak_resident_bytes(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("VmHWM");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
}

#[test]
fn top_with_a_window_leaves_the_agent_its_memory_on_a_big_node() {
    let directory = tempfile::tempdir().expect("a directory");
    let socket = directory.path().join("agent.sock");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let node = Arc::new(Mutex::new(BigNode::new()));
    let answer = move || {
        let text = node.lock().expect("no panic").answer();
        async move { text }
    };
    let router = Router::new().route("/v1/snapshot", get(answer));
    let listener = runtime.block_on(async { UnixListener::bind(&socket) }).expect("a socket");
    runtime.spawn(async move { axum::serve(listener, router).await });

    let cgroup = Cgroup::with_memory("top");
    cgroup.set_memory_limit(ROOM);
    let mut top = command::sysprobe();
    top.args(["top", "--window", "30", "--interval", "1", "-o", "json", "--socket"]).arg(&socket);
    process::inside(&mut top, &cgroup);
    let mut top = Killed(top.stdout(Stdio::piped()).spawn().expect("it can be started"));
    let lines = BufReader::new(top.0.stdout.take().expect("a pipe")).lines();
    let mut longest = 0.0_f64;
    let printed = lines.take(WINDOWS).map(|line| {
        let document: serde_json::Value = serde_json::from_str(&line.expect("text")).expect("JSON");
        longest = longest.max(document["window_seconds"].as_f64().expect("a length"));
    });
    let windows = printed.count();
    assert_eq!(windows, WINDOWS, "killed for the memory that it took");
    let peak = peak_resident_bytes(top.0.id());
    figure(&format!(
        "top of {WORKLOADS} workloads, window of {longest:.0} s: at most {} MiB resident",
        peak / MIB
    ));
}
