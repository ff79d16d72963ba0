//! The rig's directories: programs are kept across runs, everything else lasts for one run.

use std::path::PathBuf;

use crate::paths;

/// Directories that the parts write to whatever their configuration says. Within the rig, each is an empty
/// in-memory file system, so the machine's own directories do not change.
pub(super) const HIDDEN: [&str; 7] = [
    "/run/containerd",
    "/run/netns",
    "/var/lib/cni",
    "/var/lib/containerd",
    "/var/lib/kubelet",
    "/var/log/containers",
    "/var/log/pods",
];

/// The cgroup below which the kubelet puts its pods, in all hierarchies. A kubelet kills unknown pods below
/// its own cgroup; with this one, the rig's kubelet and one of the machine's do not disturb each other.
pub(super) const CGROUP: &str = "/sysprobe-e2e";

/// Programs, and below them the files that a run leaves for its reader.
pub(super) fn laboratory() -> PathBuf {
    paths::root().join("target/e2e")
}

/// The definitions of the Prometheus operator's custom resources.
pub(super) fn custom_resources() -> PathBuf {
    laboratory().join("custom-resources")
}

/// Certificates, configurations, databases: in memory, for one run.
pub(super) fn state() -> PathBuf {
    laboratory().join("state")
}

/// The output of every part in the last run.
pub(super) fn logs() -> PathBuf {
    laboratory().join("logs")
}

pub(super) fn pki() -> PathBuf {
    state().join("pki")
}
