//! The Kubernetes API with administrator rights, through `kubectl proxy`, which offers plain HTTP and handles
//! the certificates.

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::http::{self, Answer, Body};
use super::parts::Parts;
use super::service::Service;
use super::{pki, wait};

const PORT: u16 = 8001;

/// Starts the proxy.
pub(super) fn open_door(parts: &Parts) -> Result<Service> {
    let mut command = parts.kubernetes("kubectl");
    command.arg("--kubeconfig").arg(pki::file("admin", "kubeconfig"));
    let mut service = Service::start("kubectl-proxy", command.args(["proxy", &format!("--port={PORT}")]))?;
    service.ready(|| http::get(PORT, "/readyz").is_ok_and(|answer| answer.status == 200))?;
    Ok(service)
}

/// The URL at which a pod in the rig's network reaches the proxy.
pub(super) fn url(path: &str) -> String {
    format!("http://127.0.0.1:{PORT}{path}")
}

pub(super) fn get(path: &str) -> Result<Value> {
    read(path, &http::get(PORT, path)?)
}

pub(super) fn create(path: &str, object: &Value) -> Result<Value> {
    send("POST", path, "application/json", object)
}

/// Sets a status in place of the part of the cluster that would report it.
pub(super) fn patch_status(path: &str, status: &Value) -> Result<()> {
    let patch = json!({ "status": status });
    send("PATCH", &format!("{path}/status"), "application/merge-patch+json", &patch).map(drop)
}

/// Deletes an object at once, without waiting for a kubelet.
pub(super) fn delete_now(path: &str) -> Result<()> {
    send("DELETE", path, "application/json", &json!({ "gracePeriodSeconds": 0 })).map(drop)
}

fn send(method: &str, path: &str, kind: &str, object: &Value) -> Result<Value> {
    read(path, &http::ask(PORT, method, path, Body { kind, text: &object.to_string() })?)
}

pub(super) fn namespace(name: &str) -> Result<()> {
    let namespace = json!({ "metadata": { "name": name } });
    create("/api/v1/namespaces", &namespace)?;
    // Until the account exists, the API server rejects pods.
    let account = format!("/api/v1/namespaces/{name}/serviceaccounts/default");
    wait::until("the namespace has its account", || Ok(get(&account).is_ok().then_some(())))
}

pub(super) fn create_pod(pod: &Value) -> Result<Value> {
    let namespace = pod["metadata"]["namespace"].as_str().context("a pod without a namespace")?;
    create(&format!("/api/v1/namespaces/{namespace}/pods"), pod)
}

pub(super) fn node_ready(name: &str) -> Result<()> {
    wait::until("the node is ready", || {
        let node = get(&format!("/api/v1/nodes/{name}")).unwrap_or_default();
        let conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let ready = conditions.iter().find(|condition| condition["type"] == "Ready");
        Ok(ready.filter(|condition| condition["status"] == "True").map(drop))
    })
}

/// Deletes the pods of a namespace and waits until the kubelet has ended them.
pub(super) fn delete_pods(namespace: &str) -> Result<()> {
    let path = format!("/api/v1/namespaces/{namespace}/pods");
    send("DELETE", &path, "application/json", &json!({ "gracePeriodSeconds": 1 }))?;
    wait::until("the pods have gone", || {
        let left = get(&path)?;
        Ok(left["items"].as_array().is_none_or(Vec::is_empty).then_some(()))
    })
}

/// Deletes the pods of a namespace that has no pods on a kubelet.
pub(super) fn delete_pods_now(namespace: &str) -> Result<()> {
    delete_now(&format!("/api/v1/namespaces/{namespace}/pods"))
}

fn read(path: &str, answer: &Answer) -> Result<Value> {
    if !(200..300).contains(&answer.status) {
        bail!("the API server answered {} to {path}: {}", answer.status, answer.body.trim_end());
    }
    serde_json::from_str(&answer.body).with_context(|| format!("reading the answer to {path}"))
}
