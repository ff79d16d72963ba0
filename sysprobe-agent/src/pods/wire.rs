//! A pod as the API server and the kubelet write it (`v1.Pod` in JSON), and the parts of it that are wanted.
//! The rest is dropped while it arrives (`source/sieve.rs`).

use std::sync::Arc;

use serde::{Deserialize, Deserializer};

use super::id::ContainerId;
use super::pod::{ContainerKind, Owner, Pod, labels, text};
use super::source::{Sifted, Want};
use super::unread::{Unread, Why};
use crate::snapshot::{Labels, Qos};

/// The Deployment controller sets this label, and appends its value to the name of the `ReplicaSet`.
const TEMPLATE_HASH: &str = "pod-template-hash";
const HASH: &str = "kubernetes.io/config.hash";
const MIRROR: &str = "kubernetes.io/config.mirror";
/// Containers that are kept of one pod. A pod of the largest size that etcd accepts has fewer.
const CONTAINERS_MAX: usize = 512;

/// Pods that are kept of one list. By default, a kubelet runs 110.
const PODS_MAX: usize = 16_384;
/// The text of all pods of a list: a thousand of 64 KiB each.
const TEXT_MAX: usize = 64 << 20;
/// How many unreadable pods are reported one by one.
const UNREAD_MAX: usize = 256;

/// What the types below read, by JSON name.
const METADATA: Want = Want::Members(&[
    ("uid", Want::All),
    ("namespace", Want::All),
    ("name", Want::All),
    ("resourceVersion", Want::All),
    ("labels", Want::All),
    ("annotations", Want::Members(&[(HASH, Want::All), (MIRROR, Want::All)])),
    (
        "ownerReferences",
        Want::Members(&[("kind", Want::All), ("name", Want::All), ("controller", Want::All)]),
    ),
]);
const CONTAINERS: Want = Want::Members(&[("name", Want::All), ("restartPolicy", Want::All)]);
const SPEC: Want = Want::Members(&[
    ("nodeName", Want::All),
    ("hostNetwork", Want::All),
    ("initContainers", CONTAINERS),
    ("containers", CONTAINERS),
    ("ephemeralContainers", CONTAINERS),
]);
const STATE: Want = Want::Members(&[("terminated", Want::Members(&[("containerID", Want::All)]))]);
const STATUSES: Want =
    Want::Members(&[("name", Want::All), ("containerID", Want::All), ("state", STATE), ("lastState", STATE)]);
const STATUS: Want = Want::Members(&[
    ("qosClass", Want::All),
    ("initContainerStatuses", STATUSES),
    ("containerStatuses", STATUSES),
    ("ephemeralContainerStatuses", STATUSES),
]);
const POD: Want = Want::Members(&[("metadata", METADATA), ("spec", SPEC), ("status", STATUS)]);
/// Includes a `v1.Status`, which an error event has.
const POD_OR_ERROR: Want = Want::Members(&[
    ("metadata", METADATA),
    ("spec", SPEC),
    ("status", STATUS),
    ("code", Want::All),
    ("message", Want::All),
]);
pub(super) static LIST: Want = Want::Members(&[("metadata", METADATA), ("items", Want::Elements(&POD))]);
pub(super) static EVENT: Want = Want::Members(&[("type", Want::All), ("object", POD_OR_ERROR)]);

/// The answer to a list request, apart from its pods.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WireList {
    pub(super) metadata: ListMeta,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ListMeta {
    pub(super) resource_version: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WirePod {
    metadata: Meta,
    spec: Spec,
    status: Status,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Meta {
    uid: String,
    namespace: String,
    name: String,
    #[serde(deserialize_with = "nullable")]
    labels: Labels,
    #[serde(deserialize_with = "nullable")]
    annotations: Annotations,
    #[serde(deserialize_with = "nullable")]
    owner_references: Vec<Reference>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Annotations {
    #[serde(rename = "kubernetes.io/config.hash")]
    hash: Option<String>,
    #[serde(rename = "kubernetes.io/config.mirror")]
    mirror: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Reference {
    kind: String,
    name: String,
    controller: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    node_name: Option<String>,
    host_network: bool,
    #[serde(deserialize_with = "nullable")]
    init_containers: Vec<SpecContainer>,
    #[serde(deserialize_with = "nullable")]
    containers: Vec<SpecContainer>,
    #[serde(deserialize_with = "nullable")]
    ephemeral_containers: Vec<SpecContainer>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SpecContainer {
    name: String,
    restart_policy: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    #[serde(deserialize_with = "unknown_is_none")]
    qos_class: Option<Qos>,
    #[serde(deserialize_with = "nullable")]
    init_container_statuses: Vec<ContainerStatus>,
    #[serde(deserialize_with = "nullable")]
    container_statuses: Vec<ContainerStatus>,
    #[serde(deserialize_with = "nullable")]
    ephemeral_container_statuses: Vec<ContainerStatus>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ContainerStatus {
    name: String,
    #[serde(rename = "containerID")]
    container_id: Option<String>,
    state: State,
    last_state: State,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct State {
    terminated: Option<Terminated>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Terminated {
    #[serde(rename = "containerID")]
    container_id: Option<String>,
}

/// Go writes an empty list as `null`.
fn nullable<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// A class that is not known yet must not make the whole pod unreadable.
fn unknown_is_none<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Qos>, D::Error> {
    let class: Option<String> = Option::deserialize(deserializer)?;
    Ok(match class.as_deref() {
        Some("Guaranteed") => Some(Qos::Guaranteed),
        Some("Burstable") => Some(Qos::Burstable),
        Some("BestEffort") => Some(Qos::BestEffort),
        _ => None,
    })
}

impl WirePod {
    /// `None` if it cannot be a pod.
    pub(super) fn trim(self) -> Option<Pod> {
        let Self { metadata, spec, status } = self;
        if metadata.uid.is_empty() || metadata.name.is_empty() {
            return None;
        }
        let mut pod = Pod {
            uid: text(&metadata.uid),
            static_hash: metadata.static_hash().map(text),
            namespace: text(&metadata.namespace),
            name: text(&metadata.name),
            node: spec.node_name.as_deref().map(text),
            qos: status.qos_class,
            owner: metadata.owner(),
            host_network: Some(spec.host_network),
            labels: Some(labels(metadata.labels)),
            ..Pod::default()
        };
        let groups = [
            (spec.init_containers, status.init_container_statuses, ContainerKind::Init),
            (spec.containers, status.container_statuses, ContainerKind::Ordinary),
            (spec.ephemeral_containers, status.ephemeral_container_statuses, ContainerKind::Ephemeral),
        ];
        for (containers, statuses, kind) in groups {
            for container in containers.iter().take(CONTAINERS_MAX) {
                let always = container.restart_policy.as_deref() == Some("Always");
                let sidecar = always && kind == ContainerKind::Init;
                let kind = if sidecar { ContainerKind::Sidecar } else { kind };
                pod.add_container(&text(&container.name), Some(kind), &[]);
            }
            for status in statuses.iter().take(CONTAINERS_MAX) {
                pod.add_container(&text(&status.name), Some(kind), &status.ids());
            }
        }
        Some(pod)
    }
}

impl Meta {
    /// Accepts only what the kubelet could have written: 32 digits, which no other pod has as its UID.
    fn static_hash(&self) -> Option<&str> {
        self.annotations.mirror.as_ref()?;
        let hash = self.annotations.hash.as_deref()?;
        (hash.len() == 32 && hash.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(hash)
    }

    fn owner(&self) -> Option<Owner> {
        let owner = self.owner_references.iter().find(|owner| owner.controller)?;
        let deployment = self.labels.get(TEMPLATE_HASH).filter(|_| owner.kind == "ReplicaSet");
        let deployment =
            deployment.and_then(|hash| owner.name.strip_suffix(hash.as_str())?.strip_suffix('-'));
        Some(Owner { kind: text(&owner.kind), name: text(&owner.name), deployment: deployment.map(text) })
    }
}

impl ContainerStatus {
    /// The current id first. The id of a container that has ended is in `state` until the next one has an id.
    fn ids(&self) -> Vec<ContainerId> {
        let ended = |state: &State| state.terminated.as_ref().and_then(|ended| ended.container_id.clone());
        let ids = [self.container_id.clone(), ended(&self.state), ended(&self.last_state)];
        let mut found = Vec::new();
        for id in ids.iter().flatten().filter_map(|id| ContainerId::of_status(id)) {
            if !found.contains(&id) {
                found.push(id);
            }
        }
        found
    }
}

/// The pods of a list as they arrive, each behind its own pointer, and those that cannot be read.
#[derive(Debug, Default)]
pub(super) struct Listed {
    pub(super) pods: Vec<Arc<Pod>>,
    pub(super) unread: Vec<Unread>,
    /// Size of the text so far.
    bytes: usize,
}

impl Listed {
    /// For a source that parses its pods itself.
    pub(super) const fn of(pods: Vec<Arc<Pod>>, unread: Vec<Unread>) -> Self {
        Self { pods, unread, bytes: 0 }
    }

    pub(super) fn take(&mut self, element: &Sifted) {
        self.bytes += element.text.len();
        if self.pods.len() >= PODS_MAX || self.bytes > TEXT_MAX {
            return self.pass_over(Unread::new(Why::NoRoom, &element.text, "the list is too long"));
        }
        match read::<WirePod>(element) {
            Ok(pod) => self.pods.extend(pod.trim().map(Arc::new)),
            Err(unread) => self.pass_over(unread),
        }
    }

    fn pass_over(&mut self, unread: Unread) {
        let is_full = self.unread.len() >= UNREAD_MAX;
        match self.unread.last_mut() {
            Some(last) if is_full && last.why == unread.why => last.count += 1,
            _ => self.unread.push(unread),
        }
    }
}

/// Parses the kept part of an object.
pub(super) fn read<'a, T: Deserialize<'a>>(of: &'a Sifted) -> Result<T, Unread> {
    if of.is_cut {
        let error = format!("what is wanted of it has more than {} bytes", of.text.len());
        return Err(Unread::new(Why::TooLarge, &of.text, &error));
    }
    serde_json::from_slice(&of.text)
        .map_err(|error| Unread::new(Why::Malformed, &of.text, &error.to_string()))
}

#[cfg(test)]
mod tests;
