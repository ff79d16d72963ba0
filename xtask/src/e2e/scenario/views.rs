//! The command line's tables against the cluster: every pod is in every view, as one row or as its
//! containers, and also in the view of its namespace alone.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::e2e::agent::{self, Access, Agent};
use crate::e2e::pods::{self, HOME, LABEL, OTHER};
use crate::e2e::report::Report;
use crate::e2e::rig::Rig;
use crate::e2e::samples::Workload;
use crate::e2e::{kube, wait};

const NAME: &str = "views";
/// Each view, with a number that it has for every pod that works.
const VIEWS: [(&str, &str); 4] =
    [("cpu", "cpu_cores"), ("io", "read"), ("net", "sent_bytes_per_second"), ("latency", "wait_p99_seconds")];

const NAMESPACE: &str = "e2e-views";
/// The only pod that uses the network: it calls the API through the rig's own proxy.
const TALKER: &str = "talker";

pub(super) fn run(rig: &mut Rig, report: &mut Report) -> Result<()> {
    kube::namespace(NAMESPACE)?;
    let ask = format!("while :; do wget -q -O /dev/null {}; usleep 200000; done", kube::url("/readyz"));
    let mut talker = pods::pod(NAMESPACE, TALKER, &[pods::container_running("main", &ask, &json!({}))]);
    talker["spec"]["hostNetwork"] = json!(true);
    kube::create_pod(&talker)?;
    let agent = Agent::start(&rig.access, agent::AUTO)?;
    for (view, number) in VIEWS {
        let seen = view_of(&rig.access, view, number);
        report.check(NAME, &format!("every pod is in the view {view}, alone and by containers"), seen);
    }
    report.check(NAME, "the pods that work have CPU time", cpu(&rig.access));
    report.check(NAME, "one namespace alone", namespace(&rig.access));
    report.check(NAME, "pods by their labels", by_labels(&rig.access));
    agent.stop()?;
    kube::delete_pods(NAMESPACE)
}

fn view_of(access: &Access, view: &str, number: &str) -> Result<String> {
    let containers: BTreeSet<_> = pods::residents_running().into_iter().collect();
    let whole: BTreeSet<_> = containers.iter().map(Workload::whole_pod).collect();
    // The agent learns of the pods a moment after it has started.
    let rows = wait::until("every pod has its name", || {
        let rows = names(&top(access, &["--view", view, "--all"])?)?;
        Ok(whole.is_subset(&rows).then_some(rows))
    })?;
    let of_containers = rows.iter().find(|row| !row.pod.is_empty() && !row.container.is_empty());
    ensure!(of_containers.is_none(), "{of_containers:?} is no pod");
    let by_containers = names(&top(access, &["--view", view, "--all", "--containers"])?)?;
    let missing = containers.difference(&by_containers).next();
    ensure!(missing.is_none(), "{missing:?} has no row");
    let measured = wait::until(&format!("{number} of a pod"), || {
        let rows = top(access, &["--view", view])?;
        let measured = rows.iter().filter(|row| !row[number].is_null() && row["pod"] != "").count();
        Ok((measured > 0).then_some(measured))
    })?;
    Ok(format!("{} pods, {} containers; {number} of {measured}", whole.len(), containers.len()))
}

fn cpu(access: &Access) -> Result<String> {
    let rows = top(access, &["-n", HOME])?;
    let worked: Vec<_> = rows.iter().filter(|row| row["cpu_cores"].as_f64() > Some(0.0)).collect();
    let wanted = pods::residents_running()
        .iter()
        .filter(|pod| pod.namespace == HOME)
        .map(Workload::whole_pod)
        .collect::<BTreeSet<_>>();
    let working = worked.iter().map(|row| name(row)).collect::<Result<BTreeSet<_>>>()?;
    let idle = wanted.difference(&working).next();
    ensure!(idle.is_none(), "{idle:?} has no CPU time");
    Ok(format!("{} pods of {HOME}", working.len()))
}

fn namespace(access: &Access) -> Result<String> {
    let rows = names(&top(access, &["-n", OTHER, "--all"])?)?;
    let stranger = rows.iter().find(|row| row.namespace != OTHER);
    ensure!(stranger.is_none() && !rows.is_empty(), "{rows:?}");
    Ok(format!("{} of {OTHER}", rows.len()))
}

/// Selects pods of two namespaces by their labels.
pub(super) fn by_labels(access: &Access) -> Result<String> {
    let some = format!("{LABEL} in (two-containers,best-effort)");
    let both = BTreeSet::from([(HOME, "best-effort"), (HOME, "two-containers"), (OTHER, "best-effort")]);
    let wanted: BTreeSet<_> =
        both.into_iter().map(|(namespace, pod)| Workload::new(namespace, pod, "")).collect();
    // The labels are known a moment after the agent has started.
    let top = |words: &[&str]| {
        top(access, words).or_else(|error| if unknown(&error) { Ok(Vec::new()) } else { Err(error) })
    };
    let rows = wait::until("the pods with these labels", || {
        let rows = names(&top(&["-l", &some, "--all"])?)?;
        Ok((rows == wanted).then_some(rows))
    })?;
    let one = names(&top(&["-l", &format!("{LABEL}==best-effort"), "-n", OTHER, "--all"])?)?;
    ensure!(one == BTreeSet::from([Workload::new(OTHER, "best-effort", "")]), "{one:?}");
    let words =
        ["blame", "-l", &format!("{LABEL}=two-containers"), "--once", "--interval", "200ms", "-o", "json"];
    let blamed: Value = serde_json::from_str(&access.ask(&words)?)?;
    ensure!(blamed["workload"]["pod"] == "two-containers", "{blamed}");
    Ok(format!("{} pods with {some}", rows.len()))
}

/// Whether a command fails because no source provides labels.
pub(super) fn unknown(error: &anyhow::Error) -> bool {
    error.to_string().contains("the labels of pods are not known")
}

/// The rows of one window.
fn top(access: &Access, words: &[&str]) -> Result<Vec<Value>> {
    let arguments = [&["top"], words, &["--once", "--interval", "1", "-o", "json"]].concat();
    let document: Value = serde_json::from_str(&access.ask(&arguments)?).context("reading what it prints")?;
    Ok(document["workloads"].as_array().context("no workloads")?.clone())
}

fn names(rows: &[Value]) -> Result<BTreeSet<Workload>> {
    rows.iter().map(name).collect()
}

fn name(row: &Value) -> Result<Workload> {
    let text = |field: &str| row[field].as_str().with_context(|| format!("no {field} in {row}"));
    Ok(Workload::new(text("namespace")?, text("pod")?, text("container")?))
}
