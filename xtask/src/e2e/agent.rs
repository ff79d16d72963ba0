//! The agent as a node runs it, with a configuration that selects its pod sources.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use serde_json::json;

use super::cluster::kubelet::URL as KUBELET_URL;
use super::cluster::{AGENT, CRI_SOCKET, NODE, proxy};
use super::samples::{self, Sample};
use super::service::Service;
use super::{http, kube, pki, places};
use crate::cmd;

const PORT: u16 = 9937;

/// Values of `pods.sources`.
pub(super) type Sources = &'static [&'static str];
/// The API server, and the runtime's files for containers that it does not know yet.
pub(super) const AUTO: Sources = &["auto"];
pub(super) const KUBERNETES: Sources = &["kubernetes"];
pub(super) const KUBELET: Sources = &["kubelet"];
pub(super) const CRI: Sources = &["cri"];
pub(super) const RUNTIME: Sources = &["runtime"];

/// What an agent needs to reach its sources.
#[derive(Clone, Debug)]
pub(super) struct Access {
    program: PathBuf,
    pub(super) kubeconfig: PathBuf,
    pub(super) token: PathBuf,
}

/// The running agent; stopped when it is dropped.
#[derive(Debug)]
pub(super) struct Agent {
    service: Service,
}

impl Agent {
    /// Starts the agent and waits until it measures.
    pub(super) fn start(access: &Access, sources: Sources) -> Result<Self> {
        let config = places::state().join("sysprobe.toml");
        fs::write(&config, access.configuration(sources))?;
        let mut command = cmd::tool(&access.program);
        command.args(["agent", "--listen", &format!("127.0.0.1:{PORT}"), "--config"]).arg(config);
        command.arg("--socket").arg(socket());
        let mut service = Service::start("agent", &mut command)?;
        service.ready(|| http::get(PORT, "/readyz").is_ok_and(|answer| answer.status == 200))?;
        Ok(Self { service })
    }

    /// Its resident memory, in bytes.
    pub(super) fn memory(&self) -> Option<f64> {
        self.service.memory()
    }

    /// Stops the agent; fails if it has already ended by itself.
    pub(super) fn stop(mut self) -> Result<()> {
        self.service.running()?;
        self.service.stop()
    }
}

pub(super) fn scrape() -> Result<Vec<Sample>> {
    samples::parse(&scrape_text()?)
}

pub(super) fn scrape_text() -> Result<String> {
    let answer = http::get(PORT, "/metrics")?;
    if answer.status != 200 {
        bail!("the agent answered {} to a scrape: {}", answer.status, answer.body);
    }
    Ok(answer.body)
}

/// The running agent's answer to a command that asks for everything.
pub(super) fn snapshot() -> Result<String> {
    let mut curl = cmd::tool("curl");
    curl.args(["--silent", "--fail", "--unix-socket"]).arg(socket());
    let all = "lease_ms=20000&measure=true&node=true&labels=true&slow_ns=1000000";
    let answer = cmd::capture(curl.arg(format!("http://agent/v1/snapshot?{all}")));
    answer.context("the agent does not answer")
}

fn socket() -> PathBuf {
    places::state().join("agent.sock")
}

impl Access {
    /// A shell line that runs a command of the agent's program against the running agent.
    pub(super) fn line(&self, words: &[&str]) -> String {
        let words: Vec<_> = words.iter().map(|word| format!("'{word}'")).collect();
        format!("{} {} --socket {}", self.program.display(), words.join(" "), socket().display())
    }

    /// The output of a command of the agent's program that asks the running agent.
    pub(super) fn ask(&self, words: &[&str]) -> Result<String> {
        let mut command = cmd::tool(&self.program);
        let output = command.args(words).arg("--socket").arg(socket()).output()?;
        if !output.status.success() {
            bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
        }
        String::from_utf8(output.stdout).context("what it prints is no text")
    }

    /// Creates the agent's service account.
    pub(super) fn grant(program: PathBuf) -> Result<Self> {
        let token = account()?;
        let file = places::pki().join("agent.token");
        fs::write(&file, &token).context("writing the agent's token")?;
        Ok(Self { program, kubeconfig: proxy::kubeconfig(&token)?, token: file })
    }

    fn configuration(&self, sources: Sources) -> String {
        let (kubeconfig, authority, token) =
            (self.kubeconfig.display(), pki::authority_file(), self.token.display());
        // A list of plain words is the same in Rust and in TOML.
        format!(
            r#"[pods]
sources = {sources:?}
jitter_seconds = 0
node = "{NODE}"
kubeconfig = "{kubeconfig}"
[pods.kubelet]
url = "{KUBELET_URL}"
ca = "{}"
token = "{token}"
[pods.cri]
socket = "{CRI_SOCKET}"
"#,
            authority.display()
        )
    }
}

/// Creates the agent's service account, which may only read pods; returns its token.
fn account() -> Result<String> {
    let (namespace, name) = AGENT;
    kube::namespace(namespace)?;
    let account = json!({ "metadata": { "name": name } });
    kube::create(&format!("/api/v1/namespaces/{namespace}/serviceaccounts"), &account)?;
    let rules = json!([
        { "apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"] },
        { "apiGroups": [""], "resources": ["nodes/pods"], "verbs": ["get"] },
    ]);
    let roles = "/apis/rbac.authorization.k8s.io/v1";
    kube::create(&format!("{roles}/clusterroles"), &json!({ "metadata": { "name": name }, "rules": rules }))?;
    let binding = json!({
        "metadata": { "name": name },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name },
        "subjects": [{ "kind": "ServiceAccount", "name": name, "namespace": namespace }],
    });
    kube::create(&format!("{roles}/clusterrolebindings"), &binding)?;
    let request = json!({ "spec": { "expirationSeconds": 86_400 } });
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token");
    let answer = kube::create(&path, &request)?;
    let token = answer["status"]["token"].as_str().context("the API server gave no token")?;
    Ok(token.to_owned())
}
