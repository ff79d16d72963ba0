//! The clients of 500 agents at one API server, all at once and without the jitter that spreads them in a
//! roll-out: how long the answers take, how much memory they cost the server, and how often each client asks.

use std::fs;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::e2e::cluster::apiserver;
use crate::e2e::cluster::audit::{self, Audited};
use crate::e2e::report::Report;
use crate::e2e::rig::Rig;
use crate::e2e::service::Service;
use crate::e2e::{kube, pki, places, pods, wait};
use crate::{cmd, paths};

const NAME: &str = "fleet";
const NAMESPACE: &str = "e2e-fleet";
const CLIENTS: usize = 500;

/// Fifty clients watch each node: to fill one node per client with pods would take an hour.
const NODES: usize = 10;

/// The kubelet's default limit.
const PODS_PER_NODE: usize = 110;

/// The number of threads that create pods.
const MAKERS: usize = 8;

/// How long to check that the clients only keep their watches open.
const QUIET: Duration = Duration::from_secs(15);

const MIB: f64 = 1024.0 * 1024.0;

pub(super) fn run(rig: &mut Rig, report: &mut Report) -> Result<()> {
    kube::namespace(NAMESPACE)?;
    fill()?;
    let before = rig.cluster.api_memory().context("the API server has gone")?;
    let start = audit::end()?;
    let result = places::state().join("fleet.json");
    let mut fleet = Service::start("fleet", cmd::tool(program()).args(words(rig)?).arg(&result))?;
    let measured = wait::until("every client has its list", || {
        fleet.running()?;
        Ok(fs::read_to_string(&result).ok())
    })?;
    let measured: Value = serde_json::from_str(&measured)?;
    let after = rig.cluster.api_memory().context("the API server has gone")?;
    thread::sleep(QUIET);
    fleet.running()?;
    let asked = audit::since(start)?;
    report.check(NAME, "each client asks for one list from the cache and one watch", requests(&asked));
    report.check(NAME, "the server's time for a list", Ok(quantiles(&lists(&asked))?));
    report.check(NAME, "the clients' time from their start to their list", clients(&measured));
    let memory = (after - before) / CLIENTS as f64 / 1024.0;
    let text =
        format!("{memory:.0} KiB a client, {:.0} MiB with all, {:.0} MiB before", after / MIB, before / MIB);
    report.check(NAME, "the server's memory", Ok(text));
    report.check(NAME, "the clients' memory", client_memory(&measured));
    drop(fleet);
    kube::delete_pods_now(NAMESPACE)
}

pub(crate) fn program() -> std::path::PathBuf {
    paths::target().join("release/examples/fleet")
}

/// The arguments: how to reach the server, the number of clients, the nodes.
fn words(rig: &Rig) -> Result<Vec<String>> {
    let user = json!({ "tokenFile": rig.access.token });
    let kubeconfig = pki::kubeconfig("fleet", &apiserver::url(), &user)?;
    Ok(vec![kubeconfig.display().to_string(), CLIENTS.to_string(), NODES.to_string()])
}

/// Creates the pods of every node. The API server accepts them although no kubelet runs them.
fn fill() -> Result<()> {
    let fill_from = |first: usize| {
        (first..NODES * PODS_PER_NODE).step_by(MAKERS).try_for_each(|number| {
            let pod = pod(number);
            kube::create_pod(&pod).map(drop)
        })
    };
    thread::scope(|scope| {
        let makers: Vec<_> = (0..MAKERS).map(|first| scope.spawn(move || fill_from(first))).collect();
        makers.into_iter().try_for_each(|maker| match maker.join() {
            Ok(filled) => filled,
            Err(_) => bail!("a thread ended early"),
        })
    })
}

/// A pod of a typical size.
fn pod(number: usize) -> Value {
    let variables: Vec<Value> = (0..20)
        .map(|n| json!({ "name": format!("VARIABLE_{n}"), "value": "some text of usual length" }))
        .collect();
    let mut container = pods::container("main", 1, &json!({}));
    container["env"] = json!(variables);
    let mut pod = pods::pod(NAMESPACE, &format!("pod-{number}"), &[container]);
    pod["spec"]["nodeName"] = json!(format!("fleet-{}", number % NODES));
    pod["metadata"]["annotations"] = json!({ "sysprobe.test/padding": "x".repeat(2000) });
    pod
}

fn requests(asked: &[Audited]) -> Result<String> {
    let watches = asked.iter().filter(|request| request.is_watch && request.status == 200).count();
    let lists = lists(asked).len();
    let others = asked.len() - watches - lists;
    if (lists, watches) != (CLIENTS, CLIENTS) || others > CLIENTS {
        bail!("{lists} lists, {watches} watches, {others} others by {CLIENTS} clients");
    }
    Ok(format!("{CLIENTS} clients, {lists} lists, {watches} watches, {others} were put off"))
}

/// The duration of each list that was answered from the cache, in seconds.
fn lists(asked: &[Audited]) -> Vec<f64> {
    let cached = |request: &&Audited| {
        !request.is_watch && request.status == 200 && request.uri.contains("resourceVersion=0")
    };
    asked.iter().filter(cached).map(|request| request.seconds).collect()
}

fn clients(measured: &Value) -> Result<String> {
    let seconds = measured["seconds"].as_array().context("no times")?;
    quantiles(&seconds.iter().filter_map(Value::as_f64).collect::<Vec<_>>())
}

fn client_memory(measured: &Value) -> Result<String> {
    let bytes = |name: &str| measured[name].as_f64().with_context(|| format!("no {name}"));
    let (before, after) = (bytes("memory_before")?, bytes("memory")?);
    let each = (after - before) / CLIENTS as f64 / 1024.0;
    Ok(format!("{each:.0} KiB a client, {:.0} MiB with all", after / MIB))
}

fn quantiles(seconds: &[f64]) -> Result<String> {
    let mut sorted = seconds.to_vec();
    sorted.sort_by(f64::total_cmp);
    let longest = sorted.last().context("nothing was measured")?;
    let at = |percent: usize| sorted[(sorted.len() - 1) * percent / 100] * 1000.0;
    Ok(format!("p50 {:.0} ms, p99 {:.0} ms, at most {:.0} ms", at(50), at(99), longest * 1000.0))
}
