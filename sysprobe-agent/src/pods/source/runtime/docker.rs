//! Docker: `ROOT/containers/ID/config.v2.json`, which has the name, and the labels that the kubelet set
//! (cri-dockerd).

use std::path::Path;

use serde::Deserialize;

use super::labels::{Keys, Labels};
use super::{Found, read};
use crate::pods::id::ContainerId;
use crate::pods::pod::text;

const KEYS: Keys = Keys {
    namespace: "io.kubernetes.pod.namespace",
    pod: "io.kubernetes.pod.name",
    uid: "io.kubernetes.pod.uid",
    container: "io.kubernetes.container.name",
    sandbox: ("io.kubernetes.docker.type", "podsandbox"),
};

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Container {
    #[serde(default)]
    name: String,
    #[serde(default)]
    config: Config,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Config {
    labels: Option<Labels>,
}

pub(super) fn look_up(root: &Path, id: ContainerId, pod_uid: Option<&str>) -> Option<Found> {
    let container: Container = read(&root.join("containers").join(id.to_string()).join("config.v2.json"))?;
    // A user who may start a container may label it. The labels are the kubelet's only in the kubelet's own
    // cgroups.
    if pod_uid.is_some() {
        return KEYS.pod(&container.config.labels.unwrap_or_default(), id, pod_uid);
    }
    let name = container.name.trim_start_matches('/');
    (!name.is_empty()).then(|| Found::Plain(text(name)))
}
