//! containerd: the OCI bundle of each task, `STATE/io.containerd.runtime.v2.task/NAMESPACE/ID/config.json`.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::labels::{Keys, Labels};
use super::{Found, read};
use crate::pods::id::ContainerId;
use crate::pods::pod::text;

/// The namespace of the kubelet's containers, and of their pods' sandboxes.
const KUBERNETES: &str = "k8s.io";
/// A usual host has one or two.
const NAMESPACES_MAX: usize = 16;

/// containerd's `pkg/cri/annotations` (`internal/cri/annotations` since 2.0).
const KEYS: Keys = Keys {
    namespace: "io.kubernetes.cri.sandbox-namespace",
    pod: "io.kubernetes.cri.sandbox-name",
    uid: "io.kubernetes.cri.sandbox-uid",
    container: "io.kubernetes.cri.container-name",
    sandbox: ("io.kubernetes.cri.container-type", "sandbox"),
};

/// nerdctl gives every container a name; `ctr` and Docker set none here.
const NERDCTL_NAME: &str = "nerdctl/name";

#[derive(Deserialize)]
struct Specification {
    annotations: Option<Labels>,
}

pub(super) fn look_up(state: &Path, id: ContainerId, pod_uid: Option<&str>) -> Option<Found> {
    let tasks = state.join("io.containerd.runtime.v2.task");
    let id_text = id.to_string();
    let of_namespace =
        |namespace: &Path| read::<Specification>(&namespace.join(&id_text).join("config.json"));
    // Most nodes use no other namespace, and then no directory has to be listed.
    if let Some(specification) = of_namespace(&tasks.join(KUBERNETES)) {
        return KEYS.pod(&specification.annotations.unwrap_or_default(), id, pod_uid);
    }
    let specification = other_namespaces(&tasks).find_map(|namespace| of_namespace(&namespace))?;
    specification.annotations?.get(NERDCTL_NAME).map(|name| Found::Plain(text(name)))
}

fn other_namespaces(tasks: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = std::fs::read_dir(tasks).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_name() != KUBERNETES).take(NAMESPACES_MAX).map(|entry| entry.path())
}
