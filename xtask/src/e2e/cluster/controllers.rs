//! The controllers that a DaemonSet and a service account need, and the scheduler. Controllers that clean up
//! nodes and pods would react to changes that scenarios make behind the API server's back.

use std::process::Command;

use anyhow::Result;

use crate::e2e::parts::Parts;
use crate::e2e::pki;
use crate::e2e::service::Service;

/// DaemonSets and their dependents, each namespace's default account, and the authority's certificate that
/// pods with a token need.
const CONTROLLERS: [&str; 4] = [
    "daemonset-controller",
    "garbage-collector-controller",
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
];

pub(super) const MANAGER: &str = "kube-controller-manager";
pub(super) const SCHEDULER: &str = "kube-scheduler";

/// Starts both without a readiness check: later steps wait for a namespace's account and a pod's node anyway.
pub(super) fn start(parts: &Parts) -> Result<[Service; 2]> {
    let mut manager = alone(parts, MANAGER);
    manager.arg(format!("--controllers={}", CONTROLLERS.join(",")));
    // Each controller has its own rights; the manager's own account has none.
    manager.arg("--use-service-account-credentials");
    manager.arg(format!("--root-ca-file={}", pki::authority_file().display()));
    let mut scheduler = alone(parts, SCHEDULER);
    Ok([Service::start(MANAGER, &mut manager)?, Service::start(SCHEDULER, &mut scheduler)?])
}

/// Disables leader election, because a leader that cannot reach the API server exits, and disables the port.
fn alone(parts: &Parts, name: &str) -> Command {
    let mut command = parts.kubernetes(name);
    command.arg("--kubeconfig").arg(pki::file(name, "kubeconfig"));
    command.args(["--leader-elect=false", "--secure-port=0"]);
    command
}
