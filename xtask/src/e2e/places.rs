//! Where the rig keeps what: programs across runs, everything else for one run.

use std::path::PathBuf;

use crate::paths;

/// What the parts write to by themselves, whatever their configuration says. Within the rig each is an empty
/// file system in memory, so the machine's own stay as they are and nothing is left in them.
pub(super) const HIDDEN: [&str; 7] = [
    "/run/containerd",
    "/run/netns",
    "/var/lib/cni",
    "/var/lib/containerd",
    "/var/lib/kubelet",
    "/var/log/containers",
    "/var/log/pods",
];

/// The cgroup below which the kubelet has its pods, in all hierarchies. A kubelet ends whatever it finds
/// among its pods and does not know; so neither disturbs the other where the machine has one of its own.
pub(super) const CGROUP: &str = "/sysprobe-e2e";

/// Programs, and below them what a run leaves for its reader.
pub(super) fn laboratory() -> PathBuf {
    paths::root().join("target/e2e")
}

/// What describes the Prometheus operator's kinds.
pub(super) fn custom_resources() -> PathBuf {
    laboratory().join("custom-resources")
}

/// Certificates, configurations, databases: in memory, for one run.
pub(super) fn state() -> PathBuf {
    laboratory().join("state")
}

/// What every part printed in the last run.
pub(super) fn logs() -> PathBuf {
    laboratory().join("logs")
}

pub(super) fn pki() -> PathBuf {
    state().join("pki")
}
