//! CRI-O: `RUN/overlay-containers/ID/userdata/config.json`, where `RUN` is the `runroot` of its storage.

use std::path::Path;

use serde::Deserialize;

use super::labels::{Keys, Labels};
use super::{Found, read};
use crate::pods::id::ContainerId;

/// CRI-O's `pkg/annotations`.
const KEYS: Keys = Keys {
    namespace: "io.kubernetes.pod.namespace",
    pod: "io.kubernetes.pod.name",
    uid: "io.kubernetes.pod.uid",
    container: "io.kubernetes.container.name",
    sandbox: ("io.kubernetes.cri-o.ContainerType", "sandbox"),
};

#[derive(Deserialize)]
struct Specification {
    annotations: Option<Labels>,
}

pub(super) fn look_up(run: &Path, id: ContainerId, pod_uid: Option<&str>) -> Option<Found> {
    // Podman shares the directory, and its users may set any annotation. CRI-O has no containers outside of
    // pods.
    pod_uid?;
    let container = run.join("overlay-containers").join(id.to_string());
    let specification: Specification = read(&container.join("userdata/config.json"))?;
    KEYS.pod(&specification.annotations?, id, pod_uid)
}
