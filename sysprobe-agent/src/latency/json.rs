//! What `sysprobe latency` has in its JSON form ([`Document`]) beyond what all have.

use serde::Serialize;

pub use crate::show::watch::document::{
    CauseDocument, CulpritDocument, Document, PartDocument, WaitsDocument, WorkloadDocument,
};

use super::{
    Latency,
    model::{Finding, Path, Stage, Sum, Times, Whose},
};
use crate::show::{format, watch::Subject};

/// The version of this form; it changes when a field goes or changes its meaning.
pub const VERSION: u32 = 1;

#[derive(Debug, Default, Serialize)]
pub struct Numbers<'a> {
    /// What was received and read, by protocol; empty for nothing, `null` where the receive path is not watched.
    pub received: Option<Vec<PathDocument<'a>>>,
    /// All of the workload's waits for a CPU, not those of what it received alone; `null` where the scheduler is not watched.
    pub waits: Option<WaitsDocument<'a>>,
}

/// What found nothing unread in its socket, from the first network device to the first byte copied to the reader.
#[derive(Debug, Serialize)]
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

#[derive(Debug, Serialize)]
pub struct StageDocument<'a> {
    /// `FROM_to_TO`, of `device`, `ip`, the protocol, `ready`, `wakeup`, `run` and `read`. What a kernel cannot tell apart is one.
    pub stage: &'a str,
    #[serde(flatten)]
    pub times: TimesDocument,
    /// Of the time of all stages (0..1).
    pub share: f64,
}

#[derive(Debug, Serialize)]
pub struct SumDocument {
    /// `kernel_network` (what ends with `wakeup` or before), `scheduler` (`wakeup_to_run`) and `application` (`run_to_read`); or
    /// `kernel_network` and `reader`, where the kernel does not tell the other two apart.
    pub sum: &'static str,
    pub seconds: f64,
    /// Of the time of all stages (0..1).
    pub share: f64,
}

#[derive(Debug, Serialize)]
pub struct TimesDocument {
    /// How many there were, and how long they took together.
    pub count: u64,
    pub seconds: f64,
    pub count_per_second: Option<f64>,
    /// Wrong by at most 9.1 %; `null` without any.
    pub p50_seconds: Option<f64>,
    pub p90_seconds: Option<f64>,
    pub p99_seconds: Option<f64>,
    /// The upper bound of the last bucket that holds any: none was longer, unless `above_range`: then at least one was.
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
        Self { received, waits: WaitsDocument::new(&latency.waits, subject) }
    }
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
    let name = match sum.whose {
        Whose::Network => "kernel_network",
        Whose::Scheduler | Whose::Application | Whose::Reader => sum.whose.name(),
    };
    SumDocument { sum: name, seconds: sum.seconds, share: sum.share }
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
