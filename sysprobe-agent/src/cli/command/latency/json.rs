//! The part of the JSON form of `sysprobe latency` ([`Document`]) that is specific to this command.

use std::net::IpAddr;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;

pub use crate::cli::page::document::Document;
pub use crate::cli::workload_view::document::{
    CauseDocument, CulpritDocument, OfWorkload, PartDocument, WaitsDocument, WorkloadDocument,
};

use super::{
    Latency,
    model::{Finding, Path, Stage, Sum, Times, Whose},
};
use crate::cli::format;
use crate::cli::json_schema::one_of;
use crate::cli::subject::Subject;
use crate::snapshot::{Culprit, Occupant, SlowRequest, Who, seconds};

/// The version of this form; it changes when a field is removed or changes its meaning.
pub const VERSION: u32 = 1;

#[derive(Debug, Default, JsonSchema, Serialize)]
pub struct Numbers<'a> {
    /// Receive path of the data that was read in the window, by protocol. Empty if no such data was timed,
    /// `None` if the domain `rxpath` is off.
    pub received: Option<Vec<PathDocument<'a>>>,
    /// All of the workload's waits for a CPU, not only those of the received data. `None` if the domain
    /// `sched` is off.
    pub waits: Option<WaitsDocument<'a>>,
    /// Slow requests, one by one. `None` without `--slow`, or if the domain `rxpath` is off.
    pub slow: Option<SlowDocument<'a>>,
}

/// Slow requests. A request is data that arrives at an empty socket.
#[derive(Debug, JsonSchema, Serialize)]
pub struct SlowDocument<'a> {
    /// Threshold from `--slow` in seconds: requests that took this long or longer are listed.
    pub from_seconds: f64,
    /// Maximum number of slow requests that are missing in this window because a buffer was full, over all
    /// workloads.
    pub lost: u64,
    /// Slow requests that this workload read in the window, the slowest first. Only the last 1,024 of all
    /// workloads are kept.
    pub requests: Vec<SlowRequestDocument<'a>>,
}

/// One slow request: data that arrived at an empty socket.
#[derive(Debug, JsonSchema, Serialize)]
pub struct SlowRequestDocument<'a> {
    /// Time from the network device to the reader, in seconds.
    pub seconds: f64,
    /// Seconds from the read to the end of the window.
    pub read_before_end_seconds: f64,
    /// Transport protocol: `tcp` or `udp`.
    pub protocol: &'a str,
    /// Address of the peer that sent the data. `None` if the socket is not connected.
    pub peer: Option<IpAddr>,
    /// Port of the peer. It has no meaning if `peer` is `None`.
    pub peer_port: u16,
    /// Local port at which the data arrived.
    pub port: u16,
    /// In a pod, the container that read the data. Outside of pods, the container name or id, systemd unit or
    /// cgroup path (untrusted text).
    pub container: &'a str,
    /// Id of the process that read the data.
    pub pid: u32,
    /// Id of the thread that read the data.
    pub tid: u32,
    /// Name of the thread that read the data (untrusted text).
    pub thread: &'a str,
    /// Stages in the order in which the data passed them. They add up to `seconds`.
    pub stages: Vec<SlowStageDocument<'a>>,
    /// What had the reader's CPU during its last wait for it, the longest first. The sum can be shorter than
    /// the stage `wakeup_to_run`, because earlier run intervals are not known.
    pub occupants: Vec<OccupantDocument<'a>>,
}

/// One stage of a slow request.
#[derive(Debug, JsonSchema, Serialize)]
pub struct SlowStageDocument<'a> {
    /// Name of the stage, as in `received`.
    pub stage: &'a str,
    /// Time in this stage, in seconds.
    pub seconds: f64,
}

/// What had the reader's CPU while the reader waited for it.
#[derive(Debug, JsonSchema, Serialize)]
pub struct OccupantDocument<'a> {
    /// Kind of occupant.
    pub kind: OccupantKind,
    /// Kubernetes namespace. Empty outside of pods.
    pub namespace: &'a str,
    /// Pod name. Empty outside of pods.
    pub pod: &'a str,
    /// Outside of pods, the container name or id, systemd unit or cgroup path (untrusted text). Empty for a
    /// pod, and for all kinds other than `workload`.
    pub container: &'a str,
    /// Seconds for which it had the CPU.
    pub seconds: f64,
}

/// Kind of what had a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OccupantKind {
    /// A pod, a container or systemd unit outside of pods, or another cgroup.
    Workload,
    /// Kernel threads.
    Kernel,
    /// Interrupts and softirqs.
    Interrupt,
    /// The CPU was idle: it had not switched to the reader yet, or the reader's quota was used up.
    Idle,
    /// Not known.
    Unknown,
}

/// The receive path of one protocol: requests (data that arrives at an empty socket) from the first network
/// device to the first byte copied to the reader. `seconds` is the sum over all stages.
#[derive(Debug, JsonSchema, Serialize)]
pub struct PathDocument<'a> {
    /// Transport protocol: `tcp` or `udp`.
    pub protocol: &'a str,
    /// Times from the device to the reader.
    #[serde(flatten)]
    pub times: TimesDocument,
    /// Stages in the order in which data passes them.
    pub stages: Vec<StageDocument<'a>>,
    /// Stages summed up by the layer that is responsible. Each stage is in exactly one sum.
    pub sums: Vec<SumDocument>,
}

/// One stage of the receive path.
#[derive(Debug, JsonSchema, Serialize)]
pub struct StageDocument<'a> {
    /// `FROM_to_TO`, from one point to the next: `device`, `ip`, `tcp` or `udp`, `ready`, `wakeup`, `run`,
    /// `read`. Stages that this kernel cannot distinguish are merged, as in `device_to_ready`.
    pub stage: &'a str,
    #[serde(flatten)]
    pub times: TimesDocument,
    /// Share of the total time of all stages (0..1).
    pub share: f64,
}

/// The stages for which one layer is responsible.
#[derive(Debug, JsonSchema, Serialize)]
pub struct SumDocument {
    /// The responsible layer: `kernel_network` (stages up to `wakeup`), `scheduler` (`wakeup_to_run`) and
    /// `application` (`run_to_read`). Where this kernel cannot distinguish the last two, they are merged into
    /// `reader`.
    #[schemars(schema_with = "sums")]
    pub sum: &'static str,
    /// Total time of these stages, in seconds.
    pub seconds: f64,
    /// Share of the total time of all stages (0..1).
    pub share: f64,
}

/// Times of the requests that were read in the window.
#[derive(Debug, JsonSchema, Serialize)]
pub struct TimesDocument {
    /// Number of requests that were read in the window, estimated from the sampled ones.
    pub count: u64,
    /// Total time of these requests in seconds; for a stage, their time in that stage.
    pub seconds: f64,
    /// Requests read per second of the window.
    pub count_per_second: Option<f64>,
    /// Median time of a request, in seconds. Like all quantiles, it is off by at most 9.1 %. `None` without
    /// requests.
    pub p50_seconds: Option<f64>,
    /// 90th percentile of the time of a request, in seconds. `None` without requests.
    pub p90_seconds: Option<f64>,
    /// 99th percentile of the time of a request, in seconds. `None` without requests.
    pub p99_seconds: Option<f64>,
    /// Upper bound of the longest time of a request, in seconds. If `above_range` is true, at least one took
    /// longer. `None` without requests.
    pub max_seconds: Option<f64>,
    /// Whether a request took longer than the histogram's range of 32 s.
    pub above_range: bool,
}

impl<'a> Numbers<'a> {
    pub(super) fn new(latency: &'a Latency) -> Self {
        let subject = &latency.subject;
        let received = match &latency.received {
            Finding::Off(_) => None,
            Finding::Nothing => Some(Vec::new()),
            Finding::Received(paths) => Some(paths.iter().map(|one| path(one, subject)).collect()),
        };
        let slow = latency.slow.as_ref().map(|slow| SlowDocument {
            from_seconds: slow.from,
            lost: slow.lost,
            requests: slow.in_window().map(|one| request(one, slow.ended_ns)).collect(),
        });
        Self { received, waits: WaitsDocument::new(&latency.waits, subject), slow }
    }
}

fn request(one: &SlowRequest, ended_ns: u64) -> SlowRequestDocument<'_> {
    SlowRequestDocument {
        seconds: seconds(one.took_ns),
        read_before_end_seconds: seconds(ended_ns - one.read_ns),
        protocol: &one.protocol,
        peer: one.peer,
        peer_port: one.peer_port,
        port: one.port,
        container: &one.workload.container,
        pid: one.pid,
        tid: one.tid,
        thread: &one.thread,
        stages: one
            .stages
            .iter()
            .map(|(stage, ns)| SlowStageDocument { stage, seconds: seconds(*ns) })
            .collect(),
        occupants: one.occupants.iter().map(occupant).collect(),
    }
}

fn occupant(one: &Occupant) -> OccupantDocument<'_> {
    let kind = match one.who {
        Who::Workload(_) => OccupantKind::Workload,
        Who::Kernel => OccupantKind::Kernel,
        Who::Interrupt => OccupantKind::Interrupt,
        Who::Idle => OccupantKind::Idle,
        Who::Unknown => OccupantKind::Unknown,
    };
    let no_workload = ("", "", "");
    let (namespace, pod, container) = match &one.who {
        Who::Workload(Culprit { namespace, pod, container }) => (&**namespace, &**pod, &**container),
        _ => no_workload,
    };
    OccupantDocument { kind, namespace, pod, container, seconds: seconds(one.ns) }
}

fn path<'a>(path: &'a Path, subject: &Subject) -> PathDocument<'a> {
    PathDocument {
        protocol: &path.protocol,
        times: times(&path.total, subject),
        stages: path.stages.iter().map(|one| stage(one, subject)).collect(),
        sums: path.sums.iter().map(sum).collect(),
    }
}

fn stage<'a>(stage: &'a Stage, subject: &Subject) -> StageDocument<'a> {
    StageDocument { stage: &stage.name, times: times(&stage.times, subject), share: stage.share }
}

const fn sum(sum: &Sum) -> SumDocument {
    SumDocument { sum: sum_name(sum.whose), seconds: sum.seconds, share: sum.share }
}

const fn sum_name(whose: Whose) -> &'static str {
    match whose {
        Whose::Network => "kernel_network",
        Whose::Scheduler | Whose::Application | Whose::Reader => whose.name(),
    }
}

fn sums(_: &mut SchemaGenerator) -> Schema {
    one_of(Whose::ALL.map(sum_name))
}

fn times(times: &Times, subject: &Subject) -> TimesDocument {
    TimesDocument {
        count: times.count,
        seconds: times.sum,
        count_per_second: subject.per_second(times.count as f64),
        p50_seconds: times.p50,
        p90_seconds: times.p90,
        p99_seconds: times.p99,
        max_seconds: times.max.map(format::within_range),
        above_range: times.max.is_some_and(f64::is_infinite),
    }
}
