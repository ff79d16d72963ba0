//! The few messages of the CRI (`runtime.v1`) that are needed, and of each only the fields that are: a decoder skips
//! what it does not know. Written by hand, so that the build needs neither `protoc` nor a copy of the whole interface.
//!
//! Names and numbers are those of
//! <https://github.com/kubernetes/cri-api/blob/v0.33.0/pkg/apis/runtime/v1/api.proto>.

use std::collections::HashMap;

use prost::Message;

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct ListPodSandboxRequest {}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct ListPodSandboxResponse {
    #[prost(message, repeated, tag = "1")]
    pub(super) items: Vec<PodSandbox>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct PodSandbox {
    #[prost(string, tag = "1")]
    pub(super) id: String,
    #[prost(message, optional, tag = "2")]
    pub(super) metadata: Option<PodSandboxMetadata>,
    /// In nanoseconds since 1970.
    #[prost(int64, tag = "4")]
    pub(super) created_at: i64,
    /// Those of the pod when it was made, and some that the kubelet adds.
    #[prost(map = "string, string", tag = "5")]
    pub(super) labels: HashMap<String, String>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct PodSandboxMetadata {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    /// The kubelet's: the hash of the manifest for a static pod.
    #[prost(string, tag = "2")]
    pub(super) uid: String,
    #[prost(string, tag = "3")]
    pub(super) namespace: String,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct ListContainersRequest {}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct ListContainersResponse {
    #[prost(message, repeated, tag = "1")]
    pub(super) containers: Vec<Container>,
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
