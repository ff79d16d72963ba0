//! The controllers that a DaemonSet and a service account need, and the scheduler. No others: what tidies up
//! nodes and pods would act on what scenarios do behind the API server's back.

use std::process::Command;

use anyhow::Result;

use crate::e2e::parts::Parts;
use crate::e2e::pki;
use crate::e2e::service::Service;

/// DaemonSets with what belongs to them; each namespace's default account, and the authority's certificate
/// that pods with a token want.
const CONTROLLERS: [&str; 4] = [
    "daemonset-controller",
    "garbage-collector-controller",
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
];

pub(super) const MANAGER: &str = "kube-controller-manager";
pub(super) const SCHEDULER: &str = "kube-scheduler";

/// Starts both. They have nothing to be asked for: namespaces wait for their accounts, pods for their nodes.
pub(super) fn start(parts: &Parts) -> Result<[Service; 2]> {
    let mut manager = alone(parts, MANAGER);
    manager.arg(format!("--controllers={}", CONTROLLERS.join(",")));
    // Each controller has rights of its own, and together they have none.
    manager.arg("--use-service-account-credentials");
    manager.arg(format!("--root-ca-file={}", pki::authority_file().display()));
    let mut scheduler = alone(parts, SCHEDULER);
    Ok([Service::start(MANAGER, &mut manager)?, Service::start(SCHEDULER, &mut scheduler)?])
}

/// Without election of a leader, because a leader that cannot reach the API server would end; and without a
/// port.
fn alone(parts: &Parts, name: &str) -> Command {
    let mut command = parts.kubernetes(name);
    command.arg("--kubeconfig").arg(pki::file(name, "kubeconfig"));
    command.args(["--leader-elect=false", "--secure-port=0"]);
    command
}
