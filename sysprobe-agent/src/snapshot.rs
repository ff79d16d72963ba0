//! The agent's state at one point in time, as plain data: the same value is encoded for Prometheus, sent to
//! the CLI over the local socket, and compared by tests. Counters are totals since the agent started, or
//! since the cgroup was created or its workload got series of its own, if that was later. Rates and quantiles
//! over a window are differences of two snapshots, which the command computes.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use clap::ValueEnum as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::probe::AttachMode;

mod block;
mod cpu;
mod histogram;
pub mod load_average;
mod memory;
mod net;
mod node;
mod pressure;
mod query;
mod reclaim;
mod rxpath;
mod sched;
mod slow;
pub mod source;
mod tcp;
mod threads;
mod vfs;
mod workload;

pub use block::{BlockSample, DeviceSample, RequestSample};
pub use cpu::{CpuSample, Throttling};
pub use histogram::{Buckets, HistogramSample, bucket_upper};
pub use memory::{MemoryLevels, MemorySample};
pub use net::{NetSample, TrafficSample};
pub use node::{CpuTimes, DiskTimes, LinkCounts, NodeMemory, NodeSample};
pub use pressure::{PressureSample, StallSample};
pub use query::Query;
pub use reclaim::ReclaimSample;
pub use rxpath::{PathSample, RxpathSample, StageSample};
pub use sched::{BlameSample, CausesSample, Culprit, SchedSample, ThrottleSample};
pub use slow::{Occupant, SlowRequest, SlowSample, Who};
pub use tcp::{SocketsSample, TcpSample, TcpTimes};
pub use threads::{LoadSample, ThreadsSample};
pub use vfs::{OperationSample, VfsSample};
pub use workload::{Hidden, Labels, PodSample, Qos, Workload, WorkloadKind, WorkloadSample};

/// The version of this form. It increases with every change that readers can see.
pub const VERSION: u32 = 14;
/// Pod labels are sent on request since this version.
pub const LABELS_SINCE: u32 = 13;
/// The oldest version whose readers understand this one: since then, no field was removed or changed its
/// meaning, and every new field is optional.
pub const READABLE_FROM: u32 = 11;

/// The state at one point in time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    pub version: u32,
    /// The writer's `READABLE_FROM`.
    pub readable_from: u32,
    /// `CLOCK_MONOTONIC` in nanoseconds: the length of a window is a difference of it, independent of the
    /// wall clock.
    pub monotonic_ns: u64,
    pub domains: Vec<DomainState>,
    /// At most one entry per `Workload`, in no particular order.
    pub workloads: Vec<WorkloadSample>,
    /// The sum of all workloads without series of their own, including deleted ones.
    pub other: Option<WorkloadSample>,
    /// Whole pods, including their deleted containers.
    pub pods: Vec<PodTotals>,
    /// Whether histograms are exported per pod or per container.
    pub histograms: HistogramScope,
    /// The kernel's names of the reasons for which packets were dropped, by number.
    pub drop_reasons: BTreeMap<u32, String>,
    /// Only on request, and only if it can be measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow: Option<SlowSample>,
    /// Only on request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeSample>,
    pub agent: AgentSample,
}

/// Whether histograms are exported per pod or per container. A histogram has as many series as buckets, so
/// per pod is the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HistogramScope {
    /// One histogram per pod.
    #[default]
    Pod,
    /// One histogram per container.
    Container,
}

/// The histograms of a pod. A sum over its present containers would go backwards with each deleted one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodTotals {
    pub namespace: String,
    pub pod: String,
    /// As in `WorkloadSample`.
    #[serde(default)]
    pub created_ms: u64,
    pub wait: HistogramSample,
    pub vfs: VfsSample,
    pub block: BlockSample,
    pub tcp: TcpTimes,
    pub rxpath: RxpathSample,
}

/// State of one domain: whether it is measured, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct DomainState {
    /// Name of the domain, such as `sched`.
    pub name: String,
    /// Whether the domain is measured now.
    pub up: bool,
    /// Attach mode in use (`tp_btf`, `fentry`, `kprobe` or `raw_tp`), or `file` for a domain that reads
    /// files. Empty if the domain's programs are not loaded.
    #[serde(rename = "hook")]
    pub mode: String,
    /// Why the domain is off or paused (`shed: ...`). While it is up, its limitations, such as why a cheaper
    /// attach mode is not used. Empty without any.
    pub reason: String,
    /// Kernel functions and tracepoints that the domain does without, because the kernel refused to hook
    /// them. `reason` has the kernel's words.
    #[serde(default)]
    pub unseen: Vec<String>,
}

/// The beginning of the reason of a domain that is paused to spare the node its cost.
pub const SHED: &str = "shed: ";

impl DomainState {
    /// Whether a call of this function is seen, as far as the kernel's refusals tell.
    #[must_use]
    pub fn sees(&self, function: &str) -> bool {
        !self.unseen.iter().any(|unseen| unseen == function)
    }

    /// Whether it hooks functions, and not tracepoints or system calls.
    #[must_use]
    pub fn hooks_functions(&self) -> bool {
        AttachMode::from_str(&self.mode, false).is_ok_and(AttachMode::hooks_functions)
    }

    #[must_use]
    pub fn is_shed(&self) -> bool {
        !self.up && self.reason.starts_with(SHED)
    }
}

/// The agent's own state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AgentSample {
    /// When it started to count, as `Snapshot::monotonic_ns`: totals with different starts cannot be
    /// compared. 0 before version 13.
    #[serde(default)]
    pub started_ns: u64,
    /// The same by the wall clock, in milliseconds since the Unix epoch. 0 before version 14.
    #[serde(default)]
    pub started_unix_ms: u64,
    /// The share of packets that the receive path follows. `None` before version 14, and if `rxpath` is off.
    #[serde(default)]
    pub rx_followed_ratio: Option<f64>,
    /// Lost or unattributed updates by domain and reason, including those that are zero.
    pub lost_updates: Vec<LostUpdates>,
    pub maps: Vec<MapSample>,
    /// The programs' task and socket storage; empty before version 14.
    #[serde(default)]
    pub storages: Vec<StorageSample>,
    pub programs: Vec<ProgramSample>,
    /// Whether the kernel measures BPF programs on the agent's request.
    pub measuring: Measuring,
    /// Created and deleted cgroups: those that the agent was told of, and those that the kernel side counted
    /// in the same time.
    pub cgroups_born: u64,
    pub cgroups_died: u64,
    pub cgroups_born_in_kernel: u64,
    pub cgroups_died_in_kernel: u64,
    /// The sources of pod names, the most trustworthy first.
    pub pod_sources: Vec<PodSourceSample>,
    /// Time since the pod watch last delivered something; `None` without a watch, or before its first
    /// message.
    pub pod_watch_age_ns: Option<u64>,
    /// Number of workloads without series of their own, by reason.
    pub hidden: Vec<(String, u64)>,
    /// Time that tasks waited for other cgroups while the map had no room for the pair; part of the cause
    /// `unknown`. 0 before version 14.
    #[serde(default)]
    pub interference_lost_ns: u64,
    /// How long the collection of this snapshot took.
    pub collect_ns: u64,
    /// Scans of all objects of a kind; empty before version 14.
    #[serde(default)]
    pub scans: Vec<ScanSample>,
    /// Requests that were answered 503, by reason, including those that are zero; empty before version 14.
    #[serde(default)]
    pub refused: Vec<RefusedRequests>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedRequests {
    pub reason: String,
    pub count: u64,
}

/// A BPF program that the agent runs for every object of a kind, or its own walk over all cgroups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScanSample {
    /// The program's name, `cgroups` or `cgroup_files`.
    pub scan: String,
    pub passes: u64,
    /// Passes that ended before they had seen everything.
    pub truncated: u64,
    /// How long the last pass took.
    pub last_ns: u64,
    /// CPU time of the longest part of the last pass: a kernel without preemption runs nothing else on that
    /// CPU meanwhile.
    pub longest_part_ns: u64,
}

/// State of one source of pod names.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct PodSourceSample {
    /// Name of the source: `kubernetes`, `kubelet`, `cri` or `runtime`.
    pub source: String,
    /// Whether the source answers.
    pub up: bool,
    /// Why the source is not up. Empty if it is.
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
    /// `None` if the kernel does not report it (task storage).
    pub entries: Option<u64>,
    pub capacity: u64,
    pub bytes: u64,
}

/// Kernel memory of a domain's task or socket storage: an upper bound.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StorageSample {
    pub domain: String,
    /// `task` or `socket`.
    pub kind: String,
    pub bytes: u64,
}

/// Whether the agent has enabled the kernel's BPF program statistics. The sysctl `kernel.bpf_stats_enabled`
/// enables them, too.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measuring {
    #[default]
    Off,
    On,
    /// The kernel refused, for this reason.
    Refused(String),
}

/// The kernel's statistics of one program; runs and time do not change while the statistics are disabled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramSample {
    pub program: String,
    pub domain: String,
    /// Its hook, as in `tp_btf/sched_switch`, or the way in which the agent runs it if it has none.
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

    /// Removes the labels, for readers that do not ask for them.
    pub(crate) fn forget_labels(&mut self) {
        let pods = self.workloads.iter_mut().filter_map(|sample| sample.pod.as_mut());
        pods.for_each(|pod| pod.labels = None);
    }

    #[must_use]
    pub fn domain(&self, name: &str) -> Option<&DomainState> {
        self.domains.iter().find(|domain| domain.name == name)
    }

    /// The samples at the beginning of a window.
    #[must_use]
    pub fn beginning(&self) -> Beginning<'_> {
        Beginning(self.workloads.iter().map(|sample| (&sample.workload, sample)).collect())
    }

    /// Number of workloads of every kind, including kinds without any.
    #[must_use]
    pub fn workloads_by_kind(&self) -> [(&'static str, usize); WorkloadKind::ALL.len()] {
        WorkloadKind::ALL
            .map(|kind| (kind.name(), self.workloads.iter().filter(|workload| workload.kind == kind).count()))
    }
}

/// Each workload's sample at the beginning of a window.
#[derive(Clone, Debug)]
pub struct Beginning<'a>(HashMap<&'a Workload, &'a WorkloadSample>);

impl<'a> Beginning<'a> {
    /// The sample from which a later one of the same workload goes on, if there is one.
    #[must_use]
    pub fn of(&self, later: &WorkloadSample) -> Option<&'a WorkloadSample> {
        self.0.get(&later.workload).copied().filter(|earlier| later.continues(earlier))
    }
}

/// For display and for Prometheus; samples hold nanoseconds.
#[must_use]
pub(crate) fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}
