//! What `sysprobe latency` has in its JSON form ([`Document`]) beyond what all have.

use std::net::IpAddr;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;

pub use crate::show::page::document::Document;
pub use crate::show::watch::document::{
    CauseDocument, CulpritDocument, OfWorkload, PartDocument, WaitsDocument, WorkloadDocument,
};

use super::{
    Latency,
    model::{Finding, Path, Stage, Sum, Times, Whose},
};
use crate::{
    schema,
    show::{format, watch::Subject},
    snapshot::{Culprit, Occupant, SlowRequest, Who, seconds},
};

/// The version of this form; it changes when a field goes or changes its meaning.
pub const VERSION: u32 = 1;

#[derive(Debug, Default, JsonSchema, Serialize)]
pub struct Numbers<'a> {
    /// What was received and read, by protocol; empty for nothing, `null` where the receive path is not
    /// watched.
    pub received: Option<Vec<PathDocument<'a>>>,
    /// All of the workload's waits for a CPU, not those of what it received alone; `null` where the scheduler
    /// is not watched.
    pub waits: Option<WaitsDocument<'a>>,
    /// What took long, one by one; `null` unless it is asked for (`--slow`), and where the receive path is
    /// not watched.
    pub slow: Option<SlowDocument<'a>>,
}

#[derive(Debug, JsonSchema, Serialize)]
pub struct SlowDocument<'a> {
    /// From how long on.
    pub from_seconds: f64,
    /// How many of the machine's are missing in this window for want of room.
    pub lost: u64,
    /// What this workload read in this window, the slowest first; the last thousand of the machine's at most.
    pub requests: Vec<SlowRequestDocument<'a>>,
}

#[derive(Debug, JsonSchema, Serialize)]
pub struct SlowRequestDocument<'a> {
    /// From the network device to its reader.
    pub seconds: f64,
    /// How long before the end of the window it was read.
    pub read_before_end_seconds: f64,
    /// `tcp` or `udp`.
    pub protocol: &'a str,
    /// Who sent it; `null` for a socket that is not connected.
    pub peer: Option<IpAddr>,
    /// That of `peer`.
    pub peer_port: u16,
    /// The port that it came to.
    pub port: u16,
    /// Of a pod the container that read it; else the systemd unit or the cgroup path: untrusted text.
    pub container: &'a str,
    /// The process that read it.
    pub pid: u32,
    /// The thread that read it.
    pub tid: u32,
    /// What that calls itself: untrusted text.
    pub thread: &'a str,
    /// In the order of the way; they sum to `seconds`.
    pub stages: Vec<SlowStageDocument<'a>>,
    /// Who had the CPU on which it was read while the reader waited for one, the longest first. Less than the
    /// wait where more is not known.
    pub occupants: Vec<OccupantDocument<'a>>,
}

#[derive(Debug, JsonSchema, Serialize)]
pub struct SlowStageDocument<'a> {
    /// As in `received`.
    pub stage: &'a str,
    pub seconds: f64,
}

#[derive(Debug, JsonSchema, Serialize)]
pub struct OccupantDocument<'a> {
    pub kind: OccupantKind,
    /// Empty for what is no pod.
    pub namespace: &'a str,
    /// Empty for what is no pod.
    pub pod: &'a str,
    /// Empty for a pod; else the systemd unit or the cgroup path: untrusted text.
    pub container: &'a str,
    /// How long it had the CPU.
    pub seconds: f64,
}

/// Who had a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OccupantKind {
    /// A pod, a systemd unit or a cgroup.
    Workload,
    /// Threads of the kernel.
    Kernel,
    /// Interrupts and softirqs.
    Interrupt,
    /// Nobody: the CPU had not switched to the reader yet, or the reader's quota was used up.
    Idle,
    Unknown,
}

/// What found nothing unread in its socket, from the first network device to the first byte copied to the
/// reader.
#[derive(Debug, JsonSchema, Serialize)]
pub struct PathDocument<'a> {
    /// `tcp` or `udp`.
    pub protocol: &'a str,
    /// Of the whole way. Its `seconds` are those of the stages.
    #[serde(flatten)]
    pub times: TimesDocument,
    /// In the order of the way.
    pub stages: Vec<StageDocument<'a>>,
    /// Every stage is in one of them.
    pub sums: Vec<SumDocument>,
}

#[derive(Debug, JsonSchema, Serialize)]
pub struct StageDocument<'a> {
    /// `FROM_to_TO`, of `device`, `ip`, the protocol, `ready`, `wakeup`, `run` and `read`. What a kernel
    /// cannot tell apart is one.
    pub stage: &'a str,
    #[serde(flatten)]
    pub times: TimesDocument,
    /// Of the time of all stages (0..1).
    pub share: f64,
}

#[derive(Debug, JsonSchema, Serialize)]
pub struct SumDocument {
    /// `kernel_network` (what ends with `wakeup` or before), `scheduler` (`wakeup_to_run`) and `application`
    /// (`run_to_read`); or `kernel_network` and `reader`, where the kernel does not tell the other two apart.
    #[schemars(schema_with = "sums")]
    pub sum: &'static str,
    pub seconds: f64,
    /// Of the time of all stages (0..1).
    pub share: f64,
}

#[derive(Debug, JsonSchema, Serialize)]
pub struct TimesDocument {
    /// How many there were.
    pub count: u64,
    /// How long they took together.
    pub seconds: f64,
    pub count_per_second: Option<f64>,
    /// Wrong by at most 9.1 %; `null` without any.
    pub p50_seconds: Option<f64>,
    /// As `p50_seconds`.
    pub p90_seconds: Option<f64>,
    /// As `p50_seconds`.
    pub p99_seconds: Option<f64>,
    /// The upper bound of the last bucket that holds any: none was longer, unless `above_range`: then at
    /// least one was.
    pub max_seconds: Option<f64>,
    /// Whether one was longer than the histogram reaches (32 s).
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
    let nobody = ("", "", "");
    let (namespace, pod, container) = match &one.who {
        Who::Workload(Culprit { namespace, pod, container }) => (&**namespace, &**pod, &**container),
        _ => nobody,
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
    schema::one_of(Whose::ALL.map(sum_name))
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
