//! Causes trouble, and checks that the alerts for it fire.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use super::{NAME, NAMESPACE, confined};
use crate::cmd;
use crate::e2e::cluster::proxy;
use crate::e2e::pods::{container_running, pod};
use crate::e2e::prometheus::Prometheus;
use crate::e2e::report::Report;
use crate::e2e::rig::Rig;
use crate::e2e::samples::Workload;
use crate::e2e::service::Service;
use crate::e2e::{kube, places, processes, wait};

/// Uses as much CPU as its quota allows, a twentieth of a CPU.
const THROTTLED: &str = "while :; do :; done & while :; do :; done";

/// Listens, but is stopped before it accepts; clients keep connecting. With an empty backlog, the accept
/// queue holds two.
const DEAF: &str = "nc -l -p 8000 & sleep 1; kill -STOP $!; \
                    while :; do nc -w 1 127.0.0.1 8000 </dev/null & usleep 300000; done";

/// Competes for all CPUs, writes more to a disk than its memory limit holds, and uses the network: no server
/// listens on the second port.
const BUSY: &str = "while :; do :; done & while :; do :; done & (while :; do nc -l -p 8001 >/dev/null; done) \
                    & while :; do dd if=/dev/zero of=/disk/file bs=64k count=1024 conv=fsync 2>/dev/null; \
                    dd if=/disk/file of=/dev/null bs=64k 2>/dev/null; \
                    echo hello | nc -w 1 127.0.0.1 8001; nc -w 1 127.0.0.1 8002; usleep 50000; done";

/// Wants a CPU while another pod competes for all of them.
const VICTIM: &str = "while :; do :; done";

/// Writes to a disk with a low bandwidth limit.
const SLOW: &str = "while :; do dd if=/dev/zero of=/disk/slow bs=64k count=16 conv=fsync 2>/dev/null; done";
const SLOW_POD: &str = "slow";
const BYTES_PER_SECOND: u64 = 2 << 20;

/// Sends to itself over a lossy loopback for as long as the listener's input stays open. At full speed, it
/// would make more system calls than the agent's limit for the node, and none of the node's would be
/// measured.
const LOSSY: &str = "(sleep 100000 | nc -l -p 8001 >/dev/null) & while :; do \
                     (while dd if=/dev/zero bs=16k count=1 2>/dev/null; do usleep 20000; done) \
                     | nc -w 2 127.0.0.1 8001; usleep 200000; done";
const LOSSY_POD: &str = "lossy";
const LOSS: &str = "0.05";

/// A directory on a real disk: the rig's own file systems are in memory.
fn disk() -> PathBuf {
    places::laboratory().join("disk")
}

pub(super) fn start_pods(rig: &mut Rig) -> Result<()> {
    kube::namespace(NAMESPACE)?;
    fs::create_dir_all(disk())?;
    let little = json!({ "limits": { "cpu": "50m" } });
    // CPU requests keep the two in each other's way even if the machine has other work. A task that waits for
    // seconds has no culprits, because no timeline reaches back that far.
    let heavy = json!({ "requests": { "cpu": "200m" }, "limits": { "memory": "32Mi" } });
    let light = json!({ "requests": { "cpu": "100m" } });
    let pods = [
        ("throttled", THROTTLED, little),
        ("deaf", DEAF, json!({})),
        ("busy", BUSY, heavy),
        ("victim", VICTIM, light),
        (LOSSY_POD, LOSSY, json!({ "limits": { "cpu": "200m" } })),
        (SLOW_POD, SLOW, json!({})),
    ];
    for (name, line, resources) in &pods {
        let mut container = container_running("main", line, resources);
        container["volumeMounts"] = json!([{ "name": "disk", "mountPath": "/disk" }]);
        let mut pod = pod(NAMESPACE, name, &[container]);
        pod["spec"]["volumes"] = json!([{ "name": "disk", "hostPath": { "path": disk() } }]);
        kube::create_pod(&pod)?;
    }
    wait::until("the pods run", || {
        let now = rig.look()?;
        let runs = |(name, ..): &(&str, &str, Value)| now.is_running(&Workload::new(NAMESPACE, name, "main"));
        Ok(pods.iter().all(runs).then_some(()))
    })?;
    slow_down(pid_of(rig, SLOW_POD)?)?;
    lose(pid_of(rig, LOSSY_POD)?)
}

fn pid_of(rig: &mut Rig, pod: &str) -> Result<u32> {
    let workload = Workload::new(NAMESPACE, pod, "main");
    let now = rig.look()?;
    let container = now.containers.iter().find(|container| container.workload() == workload);
    container.and_then(|container| container.pid).with_context(|| format!("{workload} does not run"))
}

/// Limits how fast its cgroup may write to the disk.
fn slow_down(pid: u32) -> Result<()> {
    let cgroups = fs::read_to_string(format!("/proc/{pid}/cgroup"))?;
    let of =
        |controller: &str| cgroups.lines().find_map(|line| line.split_once(controller).map(|(_, path)| path));
    let device = fs::metadata(disk())?.dev();
    let device = format!("{}:{}", libc::major(device), libc::minor(device));
    let (file, limit) = match (of(":blkio:"), of("0::")) {
        (Some(path), _) => {
            (format!("/blkio{path}/blkio.throttle.write_bps_device"), format!("{device} {BYTES_PER_SECOND}"))
        }
        (None, Some(path)) => (format!("{path}/io.max"), format!("{device} wbps={BYTES_PER_SECOND}")),
        (None, None) => bail!("{pid} is in no cgroup: {cgroups}"),
    };
    fs::write(format!("/sys/fs/cgroup{file}"), &limit).with_context(|| format!("writing `{limit}` to {file}"))
}

/// Drops packets in the pod's own network, at the input: TCP would learn of drops at the output.
fn lose(pid: u32) -> Result<()> {
    let network = format!("--net=/proc/{pid}/ns/net");
    // With loopback's default MTU of 64 KiB, too few packets would be sent.
    cmd::run(cmd::tool("nsenter").args([&network, "ip", "link", "set", "lo", "mtu", "1500"]))?;
    let drop = ["-m", "statistic", "--mode", "random", "--probability", LOSS, "-j", "DROP"];
    cmd::run(cmd::tool("nsenter").args([&network, "iptables", "-A", "INPUT", "-p", "tcp"]).args(drop))
}

pub(super) fn end_pods() -> Result<()> {
    kube::delete_pods(NAMESPACE)?;
    fs::remove_dir_all(disk()).context("removing what the pods wrote")
}

pub(super) fn of_pods(report: &mut Report, prometheus: &Prometheus) {
    let of_pod = |pod| [("namespace", NAMESPACE), ("pod", pod)];
    for (alert, labels) in [
        ("SysprobeThrottled", of_pod("throttled").to_vec()),
        ("SysprobeWakeupLatency", of_pod("throttled").to_vec()),
        ("SysprobeNoisyNeighbour", vec![("pod", "victim"), ("culprit_pod", "busy")]),
        ("SysprobeAcceptQueueDrops", of_pod("deaf").to_vec()),
        ("SysprobeFsyncSlow", of_pod(SLOW_POD).to_vec()),
        ("SysprobeTcpRetransmits", of_pod(LOSSY_POD).to_vec()),
    ] {
        report.check(NAME, &format!("{alert} fires"), fires(prometheus, alert, &labels));
    }
}

/// Causes trouble of the agent itself. Call it after the pods have ended: they would leave the agent no CPU
/// for it.
pub(super) fn of_agent(rig: &mut Rig, report: &mut Report, prometheus: &Prometheus) {
    report.check(NAME, "SysprobeAgentCpu fires", agent_busy(prometheus));
    report.check(NAME, "SysprobePodSourceDown fires", source_down(prometheus));
    report.check(NAME, "SysprobeAgentDown fires", agent_down(rig, prometheus));
}

/// Waits until the alert fires with these labels.
pub(super) fn fires(prometheus: &Prometheus, alert: &str, labels: &[(&str, &str)]) -> Result<String> {
    let found = wait::until(&format!("{alert} fires"), || {
        let is_meant = |one: &Value| labels.iter().all(|(name, value)| one["metric"][*name] == *value);
        Ok(prometheus.firing(alert)?.into_iter().find(is_meant))
    })?;
    let shown: Vec<_> = labels.iter().map(|(_, value)| *value).collect();
    ensure!(found["metric"]["instance"] == crate::e2e::cluster::NODE, "{found} does not name the node");
    Ok(if shown.is_empty() { "it names the node".into() } else { format!("for {}", shown.join("/")) })
}

/// Asks the agent for all metrics, again and again.
fn agent_busy(prometheus: &Prometheus) -> Result<String> {
    let target = prometheus.targets()?.into_iter().next().context("no target")?;
    let ask = format!("while :; do curl --silent --output /dev/null {target}; done");
    let _scrapers = Service::start("scrapers", cmd::tool("sh").args(["-c", &ask]))?;
    fires(prometheus, "SysprobeAgentCpu", &[])
}

/// The API server breaks the watch and rejects every client from now on.
fn source_down(prometheus: &Prometheus) -> Result<String> {
    proxy::busy(Some(1))?;
    proxy::cut()?;
    let seen = fires(prometheus, "SysprobePodSourceDown", &[]);
    proxy::busy(None)?;
    wait::until("the agent has its pods again", || {
        Ok(prometheus.firing("SysprobePodSourceDown")?.is_empty().then_some(()))
    })?;
    Ok(format!("{}, and no more once it answers", seen?))
}

fn agent_down(rig: &mut Rig, prometheus: &Prometheus) -> Result<String> {
    let pid = confined::pid(rig)?;
    processes::signal(pid, libc::SIGSTOP);
    let seen = fires(prometheus, "SysprobeAgentDown", &[]);
    processes::signal(pid, libc::SIGCONT);
    wait::until("the agent answers again", || {
        Ok(prometheus.firing("SysprobeAgentDown")?.is_empty().then_some(()))
    })?;
    seen
}
