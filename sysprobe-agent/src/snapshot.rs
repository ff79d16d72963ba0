//! What the agent knows at one moment, as plain data: the same value is encoded for Prometheus, sent to the
//! CLI over the local socket, and compared by tests. All numbers are totals since the agent started, of a
//! cgroup that was made later since then; rates and quantiles over a window are differences of two snapshots,
//! taken by the command that shows them.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

mod block;
mod histogram;
mod memory;
mod net;
mod node;
mod pressure;
mod query;
mod rxpath;
mod sched;
mod slow;
mod tcp;
mod threads;
mod vfs;
mod workload;

pub use block::{BlockSample, DeviceSample, RequestSample};
pub use histogram::{Buckets, HistogramSample, bucket_upper};
pub use memory::{MemoryLevels, MemorySample, ReclaimSample};
pub use net::{NetSample, TrafficSample};
pub use node::{CpuTimes, DiskTimes, LinkCounts, NodeMemory, NodeSample};
pub use pressure::{PressureSample, StallSample};
pub use query::Query;
pub use rxpath::{PathSample, RxpathSample, StageSample};
pub use sched::{BlameSample, CausesSample, Culprit, SchedSample, ThrottleSample};
pub use slow::{Occupant, SlowRequest, SlowSample, Who};
pub use tcp::{SocketsSample, TcpSample, TcpTimes};
pub use threads::{LoadSample, ThreadsSample};
pub use vfs::{OperationSample, VfsSample};
pub use workload::{Hidden, PodSample, Workload, WorkloadKind, WorkloadSample};

/// The version of this form. It grows with anything that readers can see.
pub const VERSION: u32 = 14;
/// Since this version, the labels of pods are told to those who ask.
pub const LABELS_SINCE: u32 = 13;
/// The oldest version whose readers understand this one: since then, nothing went or changed its meaning, and
/// all that came may be left out.
pub const READABLE_FROM: u32 = 11;

/// Everything at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    pub version: u32,
    /// `READABLE_FROM` of who wrote it.
    pub readable_from: u32,
    /// `CLOCK_MONOTONIC` in nanoseconds: differences of it are the length of a window, whatever the wall
    /// clock does.
    pub monotonic_ns: u64,
    pub domains: Vec<DomainState>,
    /// At most one entry per `Workload`, in no particular order.
    pub workloads: Vec<WorkloadSample>,
    /// What those of them did that have no series of their own, and others before.
    pub other: Option<WorkloadSample>,
    /// Whole pods, with what containers did that have gone.
    pub pods: Vec<PodTotals>,
    /// Which of the two histograms is exported for a container in a pod.
    pub histograms: HistogramScope,
    /// The kernel's names of the reasons for which packets were dropped, by number.
    pub drop_reasons: BTreeMap<u32, String>,
    /// Only for those who ask, and only where it can be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow: Option<SlowSample>,
    /// Only for those who ask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeSample>,
    pub agent: AgentSample,
}

/// What a histogram of a pod is kept for: there are as many series as buckets, so a pod's sum is the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HistogramScope {
    #[default]
    Pod,
    Container,
}

/// What histograms are made of for a pod. A sum over its containers would go backwards with each that goes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodTotals {
    pub namespace: String,
    pub pod: String,
    /// As a workload's.
    #[serde(default)]
    pub created_ms: u64,
    pub wait: HistogramSample,
    pub vfs: VfsSample,
    pub block: BlockSample,
    pub tcp: TcpTimes,
    pub rxpath: RxpathSample,
}

/// Whether a domain works, and through what.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct DomainState {
    pub name: String,
    pub up: bool,
    /// The tier of hooks in use (`tp_btf`), or `file` for a domain that reads files; empty while it is off.
    pub hook: String,
    /// Why the domain is off, or why it is up through another tier than the cheapest; empty where all is
    /// well.
    pub reason: String,
}

/// What the reason begins with of a domain that is not measured for a while, to spare the node its cost.
pub const SHED: &str = "shed: ";

impl DomainState {
    #[must_use]
    pub fn is_shed(&self) -> bool {
        !self.up && self.reason.starts_with(SHED)
    }
}

/// The CPU controller's totals and settings of one workload, as its cgroup files tell them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuSample {
    pub usage_ns: Option<u64>,
    /// `None` where the cgroup has no bandwidth control (no `nr_periods` in `cpu.stat`).
    pub throttling: Option<Throttling>,
    /// Quota divided by period; `None` without a limit.
    pub quota_cores: Option<f64>,
    pub period_us: Option<u64>,
    pub burst_us: Option<u64>,
    /// `cpu.weight` (1..10000, default 100); from `cpu.shares` by the kubelet's formula on cgroup v1.
    pub weight: Option<u64>,
}

/// `nr_periods`, `nr_throttled` and the throttled time of `cpu.stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Throttling {
    pub periods: u64,
    pub throttled_periods: u64,
    pub throttled_ns: u64,
}

/// What the agent says about itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AgentSample {
    /// When it started to count, as `Snapshot::monotonic_ns`: totals of another start say nothing of these. 0
    /// before version 13.
    #[serde(default)]
    pub started_ns: u64,
    /// The same by the wall clock, in milliseconds since the Unix epoch. 0 before version 14.
    #[serde(default)]
    pub started_unix_ms: u64,
    /// What share of the packets the receive path follows. `None` before version 14, and where it is not
    /// watched.
    #[serde(default)]
    pub rx_followed_ratio: Option<f64>,
    /// Lost or unattributed updates by domain and reason, those that are zero included.
    pub lost_updates: Vec<LostUpdates>,
    pub maps: Vec<MapSample>,
    /// What programs keep with tasks and sockets; empty before version 14.
    #[serde(default)]
    pub storages: Vec<StorageSample>,
    pub programs: Vec<ProgramSample>,
    /// Whether the kernel measures its programs because the agent asks for it.
    pub measuring: Measuring,
    /// Births and deaths that the agent heard of, and those that the kernel side counted in the same time.
    pub cgroups_born: u64,
    pub cgroups_died: u64,
    pub cgroups_born_in_kernel: u64,
    pub cgroups_died_in_kernel: u64,
    /// Who is asked for the names of pods, the most trustworthy first.
    pub pod_sources: Vec<PodSourceSample>,
    /// How long ago the source that watches the pods was last heard of; `None` without one, or before its
    /// first word.
    pub pod_watch_age_ns: Option<u64>,
    /// Why workloads have no series of their own, and how many.
    pub hidden: Vec<(String, u64)>,
    /// How long tasks waited for other cgroups while the map had no room for the pair; it is in the cause
    /// `unknown`. 0 before version 14.
    #[serde(default)]
    pub interference_lost_ns: u64,
    /// How long the collection of this snapshot took.
    pub collect_ns: u64,
    /// What goes over all objects of a kind; nothing before version 14.
    #[serde(default)]
    pub scans: Vec<ScanSample>,
    /// Requests that were answered 503, by reason, those that are zero included; empty before version 14.
    #[serde(default)]
    pub refused: Vec<RefusedRequests>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedRequests {
    pub reason: String,
    pub count: u64,
}

/// A kernel program that the agent has run for every object of a kind, or its own walk over all cgroups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScanSample {
    /// The program's name, or `cgroups`.
    pub scan: String,
    pub passes: u64,
    /// Passes that ended before they had seen everything.
    pub truncated: u64,
    /// How long the last pass took.
    pub last_ns: u64,
    /// The longest part of the last pass, in time of the CPU, for which a kernel without preemption ran
    /// nothing else there.
    pub longest_part_ns: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct PodSourceSample {
    pub source: String,
    pub up: bool,
    /// Why it is not up, or was not a moment ago.
    pub reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostUpdates {
    pub domain: String,
    pub reason: String,
    pub count: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MapSample {
    pub map: String,
    /// `None` where the kernel does not say (task storage).
    pub entries: Option<u64>,
    pub capacity: u64,
    pub bytes: u64,
}

/// Kernel memory that a domain's programs keep with tasks or sockets: an upper bound.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StorageSample {
    pub domain: String,
    /// `task` or `socket`.
    pub kind: String,
    pub bytes: u64,
}

/// Whether the kernel has been asked to measure its programs. The sysctl `kernel.bpf_stats_enabled` does
/// that, too.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measuring {
    #[default]
    Off,
    On,
    /// It refused, and why.
    Refused(String),
}

/// The kernel's statistics of one program; runs and time stand still while the kernel does not measure its
/// programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramSample {
    pub program: String,
    pub domain: String,
    /// What it hooks, as in `tp_btf/sched_switch`; how the agent runs it, where it hooks nothing.
    pub hook: String,
    pub runs: u64,
    pub run_ns: u64,
    pub missed: u64,
}

impl Snapshot {
    /// The time since `earlier`; zero if they are not in order.
    #[must_use]
    pub fn window_since(&self, earlier: &Self) -> Duration {
        Duration::from_nanos(self.monotonic_ns.saturating_sub(earlier.monotonic_ns))
    }

    /// For those who do not ask for them.
    pub(crate) fn forget_labels(&mut self) {
        let pods = self.workloads.iter_mut().filter_map(|sample| sample.pod.as_mut());
        pods.for_each(|pod| pod.labels = None);
    }

    #[must_use]
    pub fn domain(&self, name: &str) -> Option<&DomainState> {
        self.domains.iter().find(|domain| domain.name == name)
    }

    #[must_use]
    pub fn by_workload(&self) -> HashMap<&Workload, &WorkloadSample> {
        self.workloads.iter().map(|sample| (&sample.workload, sample)).collect()
    }

    /// How many workloads of each kind there are, every kind included.
    #[must_use]
    pub fn workloads_by_kind(&self) -> [(&'static str, usize); WorkloadKind::ALL.len()] {
        WorkloadKind::ALL
            .map(|kind| (kind.name(), self.workloads.iter().filter(|workload| workload.kind == kind).count()))
    }
}

/// For people and for Prometheus: samples have nanoseconds.
#[must_use]
pub(crate) fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}
