//! The few messages of the CRI (`runtime.v1`) that are needed, each with only the fields that are, since a
//! decoder skips unknown ones. Written by hand, so that the build needs neither `protoc` nor a copy of the
//! whole interface.
//!
//! Names and numbers are those of
//! <https://github.com/kubernetes/cri-api/blob/v0.33.0/pkg/apis/runtime/v1/api.proto>.

use std::collections::HashMap;

use prost::Message;

use crate::cgroup::name::printable;

/// A kind of object that the runtime lists. Both answers consist of one repeated field, and both requests,
/// without a filter, are empty.
pub(super) trait Item: Message + Default {
    /// The call that lists them.
    const CALL: &'static str;
    /// The field of the answer that holds them.
    const LISTED_AS: u32 = 1;
    /// The fields of an object that are needed.
    const FIELDS: &'static [u32];

    /// A name for the log.
    fn name(&self) -> String;
}

impl Item for PodSandbox {
    const CALL: &'static str = "/runtime.v1.RuntimeService/ListPodSandbox";
    const FIELDS: &'static [u32] = &[1, 2, 4, 5];

    fn name(&self) -> String {
        let PodSandboxMetadata { namespace, name, .. } = self.metadata.as_ref().unwrap_or(&NAMELESS);
        printable(&format!("{namespace}/{name}"))
    }
}

impl Item for Container {
    const CALL: &'static str = "/runtime.v1.RuntimeService/ListContainers";
    const FIELDS: &'static [u32] = &[1, 2, 3];

    fn name(&self) -> String {
        printable(&self.id)
    }
}

static NAMELESS: PodSandboxMetadata =
    PodSandboxMetadata { name: String::new(), uid: String::new(), namespace: String::new() };

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct PodSandbox {
    #[prost(string, tag = "1")]
    pub(super) id: String,
    #[prost(message, optional, tag = "2")]
    pub(super) metadata: Option<PodSandboxMetadata>,
    /// In nanoseconds since 1970.
    #[prost(int64, tag = "4")]
    pub(super) created_at: i64,
    /// The pod's labels when the sandbox was created, and some that the kubelet adds.
    #[prost(map = "string, string", tag = "5")]
    pub(super) labels: HashMap<String, String>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct PodSandboxMetadata {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    /// The kubelet's UID. For a static pod, it is the hash of the manifest.
    #[prost(string, tag = "2")]
    pub(super) uid: String,
    #[prost(string, tag = "3")]
    pub(super) namespace: String,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct Container {
    #[prost(string, tag = "1")]
    pub(super) id: String,
    #[prost(string, tag = "2")]
    pub(super) pod_sandbox_id: String,
    #[prost(message, optional, tag = "3")]
    pub(super) metadata: Option<ContainerMetadata>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct ContainerMetadata {
    #[prost(string, tag = "1")]
    pub(super) name: String,
}
