//! `sysprobe blame` of a pod, selected by name, namespace and container: it must report the kernel's wait
//! time, and the pod that has the CPUs meanwhile.

use std::fs;
use std::thread::available_parallelism;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::e2e::agent::{self, Access, Agent};
use crate::e2e::pods::{self, HOME, OTHER, container_running};
use crate::e2e::report::Report;
use crate::e2e::rig::Rig;
use crate::e2e::samples::Workload;
use crate::e2e::{kube, wait};

const NAME: &str = "blame";
const NAMESPACE: &str = "e2e-blame";
const VICTIM: &str = "victim";
const CONTAINER: &str = "spinner";
const HOG: &str = "hog";
/// A shell's line that always has work.
pub(super) const SPIN: &str = "while :; do :; done";

/// Seconds. The kernel's wait time is read before the command starts and after it ends, so it covers a little
/// more than this window.
const WINDOW: &str = "5";
/// The share of the wait that may lie outside of the window.
const OUTSIDE: f64 = 0.15;

pub(super) fn run(rig: &mut Rig, report: &mut Report) -> Result<()> {
    kube::namespace(NAMESPACE)?;
    start_pods(rig)?;
    let agent = Agent::start(&rig.access, agent::AUTO)?;
    report.check(NAME, "a container's wait is the kernel's, and the hog's fault", container(rig));
    report.check(NAME, "a pod's wait has that of all its containers", whole_pod(&rig.access));
    report.check(
        NAME,
        "of two pods with one name, the namespace tells which is meant",
        namesakes(&rig.access),
    );
    agent.stop()?;
    kube::delete_pods(NAMESPACE)
}

fn start_pods(rig: &mut Rig) -> Result<()> {
    let spinners = spin_on_all();
    // Pods without requests wait for every pod with one, and the rig has such pods. With four times the
    // victim's weight, the hog takes more of its time than any of them can.
    let [little, much] = ["100m", "400m"].map(|cpu| json!({ "requests": { "cpu": cpu } }));
    let victim = [
        container_running(CONTAINER, SPIN, &little),
        container_running("sleeper", "while :; do usleep 100000; done", &json!({})),
    ];
    kube::create_pod(&pods::pod(NAMESPACE, VICTIM, &victim))?;
    kube::create_pod(&pods::pod(NAMESPACE, HOG, &[container_running("main", &spinners, &much)]))?;
    wait::until("the pods run", || {
        let now = rig.look()?;
        let both = now.is_running(&victim_of(CONTAINER)) && now.is_running(&victim_of("sleeper"));
        Ok((both && now.is_running(&Workload::new(NAMESPACE, HOG, "main"))).then_some(()))
    })
}

/// One spinning process for each CPU.
pub(super) fn spin_on_all() -> String {
    let cpus = available_parallelism().map_or(1, usize::from);
    format!("{} wait", format!("({SPIN}) & ").repeat(cpus))
}

fn victim_of(container: &str) -> Workload {
    Workload::new(NAMESPACE, VICTIM, container)
}

fn container(rig: &mut Rig) -> Result<String> {
    let pid = pid_of(rig)?;
    let before = run_delay(pid)?;
    let seen = blame(&rig.access, &[VICTIM, "-n", NAMESPACE, "--container", CONTAINER])?;
    let kernels = run_delay(pid)? - before;
    let waited = seconds(&seen["waits"])?;
    ensure!(
        waited <= kernels && waited >= kernels * (1.0 - OUTSIDE),
        "{waited:.3} s, the kernel has {kernels:.3} s in a little more time"
    );
    let causes = seen["waits"]["causes"].as_array().context("no causes")?;
    let parts = causes.iter().map(seconds).sum::<Result<f64>>()?;
    ensure!((parts - waited).abs() < 1e-6, "the causes have {parts} s of {waited} s");
    // Other pods and the cluster's own parts work a little, too.
    let worst = &seen["waits"]["culprits"][0];
    ensure!(worst["namespace"] == NAMESPACE && worst["pod"] == HOG, "{worst} has done most of it");
    let hogs = blamed(&seen, HOG)?;
    Ok(format!("{waited:.3} s of the kernel's {kernels:.3} s; {HOG} is blamed for {hogs:.3} s"))
}

fn whole_pod(access: &Access) -> Result<String> {
    // As users type it.
    let seen = blame(access, &[&format!("{NAMESPACE}/{VICTIM}")])?;
    let containers = seen["workload"]["containers"].as_u64();
    // The sandbox counts as a container.
    ensure!(containers.is_some_and(|containers| containers >= 2), "it has {containers:?} containers");
    let hogs = blamed(&seen, HOG)?;
    ensure!(hogs > 0.0, "{HOG} is not blamed: {}", seen["waits"]);
    Ok(format!("{:.3} s in {} containers", seconds(&seen["waits"])?, containers.unwrap_or_default()))
}

fn namesakes(access: &Access) -> Result<String> {
    const TWICE: &str = "best-effort";
    let Err(refused) = blame(access, &[TWICE]) else { bail!("`blame {TWICE}` has chosen one") };
    let refused = refused.to_string();
    for namespace in [HOME, OTHER] {
        let name = format!("{namespace}/{TWICE}");
        ensure!(refused.contains(&name), "{name} is not offered: {refused}");
        let seen = blame(access, &[TWICE, "-n", namespace])?;
        ensure!(seen["workload"]["namespace"] == namespace, "-n {namespace} shows {}", seen["workload"]);
    }
    Ok(refused)
}

/// The command's output for one window.
fn blame(access: &Access, words: &[&str]) -> Result<Value> {
    let arguments = [&["blame"], words, &["--once", "--interval", WINDOW, "-o", "json"]].concat();
    serde_json::from_str(&access.ask(&arguments)?).context("reading what it prints")
}

fn seconds(part: &Value) -> Result<f64> {
    part["seconds"].as_f64().with_context(|| format!("no seconds in {part}"))
}

fn blamed(seen: &Value, pod: &str) -> Result<f64> {
    let culprits = seen["waits"]["culprits"].as_array().context("no culprits")?;
    let ours = culprits.iter().filter(|one| one["namespace"] == NAMESPACE && one["pod"] == pod);
    ours.map(seconds).sum()
}

fn pid_of(rig: &mut Rig) -> Result<u32> {
    let now = rig.look()?;
    let container = now.containers.iter().find(|container| container.workload() == victim_of(CONTAINER));
    container.and_then(|container| container.pid).context("the victim does not run")
}

/// Seconds that the process, which has one thread, has waited for a CPU.
fn run_delay(pid: u32) -> Result<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat"))?;
    let waited = text.split(' ').nth(1).and_then(|field| field.parse::<f64>().ok());
    Ok(waited.context("schedstat has no second field")? / 1e9)
}
