//! The agent as a cluster gets it: installed by the chart, from the image, as a DaemonSet's pod that the
//! kubelet runs and Prometheus finds.

mod alerts;
mod confined;
mod queries;

use std::fs;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::e2e::cluster::NODE;
use crate::e2e::prometheus::{self, Prometheus};
use crate::e2e::report::Report;
use crate::e2e::rig::Rig;
use crate::e2e::samples::Workload;
use crate::e2e::{helm, image, kube, places, truth, wait};

const NAME: &str = "chart";

/// The namespace of the pods that cause trouble; some of them also provide data for the queries.
pub(super) const NAMESPACE: &str = "e2e-trouble";

pub(super) fn run(rig: &mut Rig, report: &mut Report) -> Result<()> {
    custom_resources()?;
    rig.cluster.runtime.import(&image::agent())?;
    let start = Instant::now();
    helm::install(&["podMonitor.enabled=true", "prometheusRule.enabled=true", "dashboards.enabled=true"])?;
    let took = start.elapsed().as_secs_f64();
    let seen = objects().map(|seen| format!("{seen}, ready after {took:.1} s"));
    report.check(NAME, "helm installs it, the API server takes every object", seen);
    report.check(NAME, "it has the rights of the chart and no others", confined::rights(rig));
    report.check(NAME, "commands in its container", confined::commands(rig));

    let prometheus = Prometheus::start(&rig.cluster.parts)?;
    report.check(NAME, "Prometheus finds it and keeps its labels", scraped(rig, &prometheus));
    alerts::start_pods(rig)?;
    report.check(NAME, "what it takes", confined::costs(rig, &prometheus));
    report.check(NAME, "every query of the dashboards", queries::all(&prometheus));
    alerts::of_pods(report, &prometheus);
    alerts::end_pods()?;
    alerts::of_agent(rig, report, &prometheus);
    report.check(NAME, "an upgrade changes its configuration", upgraded(rig, &prometheus));
    report.check(NAME, "helm removes all of it", removed(rig));
    Ok(())
}

/// Installs the custom resource definitions of the Prometheus operator. No operator acts on the objects here.
fn custom_resources() -> Result<()> {
    let mut kinds = Vec::new();
    for entry in fs::read_dir(places::custom_resources())? {
        let resource: Value = serde_json::from_str(&fs::read_to_string(entry?.path())?)?;
        kube::create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &resource)?;
        kinds.extend(resource["spec"]["names"]["plural"].as_str().map(str::to_owned));
    }
    wait::until("the API server knows the operator's kinds", || {
        let known = kube::get("/apis/monitoring.coreos.com/v1").unwrap_or_default();
        let known = known["resources"].as_array().cloned().unwrap_or_default();
        let has = |kind: &String| known.iter().any(|resource| resource["name"] == **kind);
        Ok(kinds.iter().all(has).then_some(()))
    })
}

/// Checks that the release's objects exist and that the daemon runs on every node.
fn objects() -> Result<String> {
    let daemons = kube::get(&format!("/apis/apps/v1/namespaces/{}/daemonsets", helm::NAMESPACE))?;
    let status = &daemons["items"][0]["status"];
    ensure!(status["numberReady"] == 1 && status["desiredNumberScheduled"] == 1, "{status}");
    let count = |group: &str, kind: &str| -> Result<usize> {
        let list = kube::get(&format!("{group}/namespaces/{}/{kind}", helm::NAMESPACE))?;
        Ok(list["items"].as_array().map_or(0, Vec::len))
    };
    let operator = "/apis/monitoring.coreos.com/v1";
    let (monitors, rules) = (count(operator, "podmonitors")?, count(operator, "prometheusrules")?);
    let policies = count("/apis/networking.k8s.io/v1", "networkpolicies")?;
    ensure!(
        (monitors, rules, policies) == (1, 2, 1),
        "{monitors} monitors, {rules} rules, {policies} policies"
    );
    Ok("1 DaemonSet, 1 PodMonitor, 2 PrometheusRules, 1 NetworkPolicy (not enforced here)".into())
}

/// Checks that every running container has series with its own labels, and that the target is named after its
/// node.
fn scraped(rig: &mut Rig, prometheus: &Prometheus) -> Result<String> {
    let started = Instant::now();
    let count = wait::until("Prometheus has every container", || {
        let running = rig.look()?.running();
        let mut have = Vec::new();
        for family in truth::FAMILIES {
            have.push(workloads(&prometheus.series(family)?));
        }
        let all = have.iter().all(|have| running.iter().all(|workload| have.contains(workload)));
        Ok(all.then_some(running.len()))
    })?;
    let up = prometheus.series("up{job=\"sysprobe\"}")?;
    let [target] = &*up else { bail!("{} targets instead of one", up.len()) };
    ensure!(target["value"][1] == "1" && target["metric"]["instance"] == NODE, "{target}");
    let of_agents_namespace =
        format!("{}{{namespace=\"{}\",container!~\"sysprobe|POD|\"}}", truth::ON_CPU, helm::NAMESPACE);
    let others = prometheus.series(&of_agents_namespace)?;
    ensure!(
        others.is_empty(),
        "by the labels of the agent's own pod, or by an id for want of patience: {others:?}"
    );
    let kernel = format!("{}{{namespace=\"\",pod=\"\",container=\"kernel\"}}", truth::ON_CPU);
    ensure!(!prometheus.series(&kernel)?.is_empty(), "the kernel's own time has no series");
    Ok(format!("{count} containers after {:.1} s, one target named {NODE}", started.elapsed().as_secs_f64()))
}

fn workloads(series: &[Value]) -> Vec<Workload> {
    let label = |one: &Value, name: &str| one["metric"][name].as_str().unwrap_or_default().to_owned();
    let workload =
        |one: &Value| Workload::new(&label(one, "namespace"), &label(one, "pod"), &label(one, "container"));
    series.iter().map(workload).collect()
}

/// With room for three workloads, the others are counted as `other`, and an alert fires for it.
fn upgraded(rig: &mut Rig, prometheus: &Prometheus) -> Result<String> {
    let before = confined::agent(rig)?;
    helm::upgrade(&["config=[metrics]\nworkloads = 3"])?;
    let after = confined::agent(rig)?;
    ensure!(before.id != after.id, "it is still the same container");
    prometheus::discover()?;
    let hidden = alerts::fires(prometheus, "SysprobeSeriesLeftOut", &[])?;
    Ok(format!("another container; SysprobeSeriesLeftOut fires, {hidden}"))
}

fn removed(rig: &mut Rig) -> Result<String> {
    helm::uninstall()?;
    wait::until("the agent's pod has gone", || {
        let now = rig.look()?;
        Ok((!now.containers.iter().any(|container| container.namespace == helm::NAMESPACE)).then_some(()))
    })?;
    let roles = "/apis/rbac.authorization.k8s.io/v1";
    for path in [&format!("{roles}/clusterroles"), &format!("{roles}/clusterrolebindings")] {
        let name = format!("{}-{}", helm::NAMESPACE, helm::RELEASE);
        ensure!(kube::get(&format!("{path}/{name}")).is_err(), "{path}/{name} is left");
    }
    let left = kube::get(&format!("/api/v1/namespaces/{}/configmaps", helm::NAMESPACE))?;
    let left = left["items"].as_array().context("no list")?;
    let ours = left.iter().filter(|map| map["metadata"]["name"] != "kube-root-ca.crt").count();
    ensure!(ours == 0, "{ours} ConfigMaps are left");
    Ok("pod, roles, ConfigMaps".into())
}
