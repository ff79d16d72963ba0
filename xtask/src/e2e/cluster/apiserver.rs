//! The API server, which records every request of the agent in its audit log.

use std::fs;
use std::path::PathBuf;

use anyhow::Result;
use serde_json::json;

use super::{AGENT, NODE_ADDRESS, etcd};
use crate::cmd;
use crate::e2e::parts::Parts;
use crate::e2e::service::Service;
use crate::e2e::{pki, places};

const PORT: u16 = 6443;

pub(in crate::e2e) fn url() -> String {
    format!("https://127.0.0.1:{PORT}")
}

pub(super) fn start(parts: &Parts) -> Result<Service> {
    let mut service = Service::start("kube-apiserver", &mut command(parts)?)?;
    service.ready(is_ready)?;
    Ok(service)
}

fn command(parts: &Parts) -> Result<std::process::Command> {
    let mut command = parts.kubernetes("kube-apiserver");
    let mut file = |flag: &str, name: &str, kind: &str| {
        command.arg(format!("--{flag}={}", pki::file(name, kind).display()));
    };
    file("client-ca-file", "ca", "crt");
    file("tls-cert-file", "apiserver", "crt");
    file("tls-private-key-file", "apiserver", "key");
    // For requests that go through the kubelet, such as `kubectl exec`.
    file("kubelet-client-certificate", "admin", "crt");
    file("kubelet-client-key", "admin", "key");
    file("kubelet-certificate-authority", "ca", "crt");
    file("service-account-key-file", "service-accounts", "pub");
    file("service-account-signing-key-file", "service-accounts", "key");
    command.arg(format!("--etcd-servers={}", etcd::url()));
    command.arg(format!("--secure-port={PORT}")).arg(format!("--advertise-address={NODE_ADDRESS}"));
    command.args(["--bind-address=127.0.0.1", "--service-cluster-ip-range=10.96.0.0/16"]);
    command.args(["--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction"]);
    command.args(["--allow-privileged=true", "--kubelet-preferred-address-types=InternalIP"]);
    command.arg("--service-account-issuer=https://kubernetes.default.svc");
    // There is only one API server, and no client reaches it through a service's endpoints.
    command.arg("--endpoint-reconciler-type=none");
    command.arg(format!("--audit-policy-file={}", policy()?.display()));
    command.arg(format!("--audit-log-path={}", audit_log().display()));
    Ok(command)
}

fn is_ready() -> bool {
    let mut curl = cmd::tool("curl");
    curl.args(["--silent", "--fail", "--cacert"]).arg(pki::authority_file());
    curl.arg("--cert").arg(pki::file("admin", "crt")).arg("--key").arg(pki::file("admin", "key"));
    cmd::capture(curl.arg(format!("{}/readyz", url()))).is_some()
}

/// Audits the agent's requests only.
fn policy() -> Result<PathBuf> {
    let (namespace, name) = AGENT;
    let policy = json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "rules": [
            { "level": "Metadata", "users": [format!("system:serviceaccount:{namespace}:{name}")] },
            { "level": "None" },
        ],
    });
    let path = places::state().join("audit-policy.yaml");
    fs::write(&path, policy.to_string())?;
    Ok(path)
}

pub(super) fn audit_log() -> PathBuf {
    places::logs().join("audit.log")
}
