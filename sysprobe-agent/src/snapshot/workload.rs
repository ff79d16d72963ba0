//! Workloads in a snapshot: their identity, and the samples of each domain.

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    BlockSample, CpuSample, MemorySample, NetSample, PressureSample, ReclaimSample, RxpathSample,
    SchedSample, TcpSample, ThrottleSample, VfsSample,
};

/// The labels of a workload: the kubelet's own names, so that joins with other exporters work.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Workload {
    /// Empty outside of pods.
    pub namespace: String,
    /// Empty outside of pods.
    pub pod: String,
    /// The container's name or ID, else the systemd unit, else the cgroup path. Without a namespace, the
    /// `OWN_NAMES` are the agent's.
    pub container: String,
}

/// Kind of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkloadKind {
    /// A container.
    Container,
    /// A pod as a whole, or the cgroup of a pod that has a limit of its own.
    Pod,
    /// A systemd unit.
    Unit,
    /// Any other cgroup, named by its path.
    Path,
    /// The kernel's own threads, and dropped packets without a socket.
    Kernel,
    /// Activity that could not be attributed to a workload.
    Unknown,
    /// The sum of the workloads that have no series of their own.
    Other,
}

/// Why a workload is a part of `other`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hidden {
    /// The configuration excludes its namespace or name.
    Unwanted,
    /// The maximum number of workloads had been reached when it appeared.
    OverBudget,
}

/// One workload's totals. A part is `None` where its domain is off or does not apply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkloadSample {
    pub workload: Workload,
    pub kind: WorkloadKind,
    /// The time since which it is counted, in milliseconds since the Unix epoch: its counters were 0 then. 0
    /// before version 14.
    #[serde(default)]
    pub created_ms: u64,
    /// Whether all of its cgroups have been deleted: it is kept until its grace period ends.
    #[serde(default)]
    pub gone: bool,
    /// Why it has no series of its own, if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hidden: Option<Hidden>,
    /// `None` outside of pods.
    pub pod: Option<PodSample>,
    pub sched: Option<SchedSample>,
    pub throttle: Option<ThrottleSample>,
    pub vfs: Option<VfsSample>,
    pub block: Option<BlockSample>,
    pub tcp: Option<TcpSample>,
    pub net: Option<NetSample>,
    pub rxpath: Option<RxpathSample>,
    pub reclaim: Option<ReclaimSample>,
    pub cpu: Option<CpuSample>,
    pub memory: Option<MemorySample>,
    pub pressure: Option<PressureSample>,
}

/// The labels by which users select pods.
pub type Labels = BTreeMap<String, String>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Qos {
    Guaranteed,
    Burstable,
    BestEffort,
}

/// Properties of a workload's pod besides its names. Each is `None` if no source knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodSample {
    pub uid: String,
    pub node: Option<String>,
    pub qos: Option<Qos>,
    /// The Deployment, if a Deployment's `ReplicaSet` created the pod.
    pub owner_kind: Option<String>,
    pub owner_name: Option<String>,
    pub host_network: Option<bool>,
    /// Only on request; also `None` if no source knows them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<Arc<Labels>>,
}

impl Workload {
    /// Kernel threads.
    pub const KERNEL: &str = "kernel";
    /// Activity that cannot be attributed.
    pub const UNKNOWN: &str = "unknown";
    /// The sum of all workloads without series of their own.
    pub const OTHER: &str = "other";
    /// The agent's names for the three above: without a namespace, no real workload has these names.
    pub const OWN_NAMES: [&str; 3] = [Self::KERNEL, Self::UNKNOWN, Self::OTHER];

    /// The pod that it is or belongs to; `None` outside of pods.
    #[must_use]
    pub fn whole_pod(&self) -> Option<Self> {
        let Self { namespace, pod, .. } = self;
        let whole = || Self { namespace: namespace.clone(), pod: pod.clone(), container: String::new() };
        (!pod.is_empty()).then(whole)
    }

    /// The workload that sums up all workloads without series of their own.
    #[must_use]
    pub fn other() -> Self {
        Self { container: Self::OTHER.to_owned(), ..Self::default() }
    }
}

impl WorkloadSample {
    /// A sample without any numbers.
    #[must_use]
    pub const fn new(workload: Workload, kind: WorkloadKind) -> Self {
        Self {
            workload,
            kind,
            created_ms: 0,
            gone: false,
            hidden: None,
            pod: None,
            sched: None,
            throttle: None,
            vfs: None,
            block: None,
            tcp: None,
            net: None,
            rxpath: None,
            reclaim: None,
            cpu: None,
            memory: None,
            pressure: None,
        }
    }

    /// Whether the totals of an earlier sample of the same workload are a part of these. Otherwise these
    /// began anew: the agent has restarted, the workload's grace period had ended, or it has got series of
    /// its own since. Always true before version 14.
    #[must_use]
    pub(crate) fn continues(&self, earlier: &Self) -> bool {
        (self.created_ms, self.hidden) == (earlier.created_ms, earlier.hidden)
    }
}

impl Hidden {
    pub const ALL: [Self; 2] = [Self::Unwanted, Self::OverBudget];

    /// As in labels and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unwanted => "unwanted",
            Self::OverBudget => "over_budget",
        }
    }
}

impl WorkloadKind {
    pub const ALL: [Self; 7] =
        [Self::Container, Self::Pod, Self::Unit, Self::Path, Self::Kernel, Self::Unknown, Self::Other];

    /// As in labels and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Container => "container",
            Self::Pod => "pod",
            Self::Unit => "unit",
            Self::Path => "path",
            Self::Kernel => "kernel",
            Self::Unknown => "unknown",
            Self::Other => "other",
        }
    }
}
