//! The chart's release in the cluster, managed with helm itself.

use std::process::Command;

use anyhow::Result;

use super::cluster::Cluster;
use super::{image, pki, places};
use crate::{chart, cmd};

pub(super) const NAMESPACE: &str = "observability";
pub(super) const RELEASE: &str = "sysprobe";

/// Longer than this node takes to start an agent.
const LIMIT: &str = "120s";

/// Installs the chart with the image that was just built, and waits until the agent is ready.
pub(super) fn install(values: &[&str]) -> Result<()> {
    let mut helm = helm(&["install", RELEASE])?;
    helm.arg(chart::directory()).args(["--create-namespace", "--wait", "--timeout", LIMIT]);
    let (repository, tag) = image::AGENT.rsplit_once(':').unwrap_or((image::AGENT, ""));
    let (repository, tag) = (format!("image.repository={repository}"), format!("image.tag={tag}"));
    // With a single node, a rollout has no next node to wait for.
    helm.args(sets(&[&repository, &tag, "image.pullPolicy=Never", "minReadySeconds=0"]));
    cmd::output(helm.args(sets(values))).map(drop)
}

/// Changes the release's values, keeping the others, and waits until the new agent is ready.
pub(super) fn upgrade(values: &[&str]) -> Result<()> {
    let mut helm = helm(&["upgrade", RELEASE])?;
    helm.arg(chart::directory()).args(["--reset-then-reuse-values", "--wait", "--timeout", LIMIT]);
    cmd::output(helm.args(sets(values))).map(drop)
}

pub(super) fn uninstall() -> Result<()> {
    cmd::output(helm(&["uninstall", RELEASE])?.args(["--wait", "--timeout", LIMIT])).map(drop)
}

/// The output of a command in the agent's container, as `kubectl exec` shows it.
pub(super) fn exec(cluster: &Cluster, words: &[&str]) -> Result<String> {
    let mut kubectl = cluster.parts.kubernetes("kubectl");
    kubectl.arg("--kubeconfig").arg(pki::file("admin", "kubeconfig"));
    kubectl.args(["exec", "-n", NAMESPACE, &format!("daemonset/{RELEASE}"), "--"]).args(words);
    cmd::output(&mut kubectl)
}

fn sets<'a>(values: &'a [&'a str]) -> impl Iterator<Item = &'a str> {
    values.iter().flat_map(|value| ["--set", value])
}

fn helm(words: &[&str]) -> Result<Command> {
    let mut command = chart::helm()?;
    command
        .args(words)
        .args(["--namespace", NAMESPACE, "--kubeconfig"])
        .arg(pki::file("admin", "kubeconfig"));
    // By default, helm stores its data in the user's home.
    for place in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
        command.env(place, places::state().join("helm"));
    }
    Ok(command)
}
