//! A workload's waits for a CPU in the JSON form.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;

use crate::cli::json_schema::one_of;
use crate::cli::subject::Subject;
use crate::cli::waits::{Cause, Finding, Part};
use crate::snapshot::Culprit;

/// A workload's waits for a CPU. If it did not wait, all numbers are zero or `None`.
#[derive(Debug, Default, JsonSchema, Serialize)]
pub struct WaitsDocument<'a> {
    /// Number of waits that ended in the window.
    pub count: u64,
    /// Total time of these waits in seconds, summed over threads.
    pub seconds: f64,
    /// Seconds of waiting per second of the window: the mean number of waiting threads. `None` without waits.
    pub seconds_per_second: Option<f64>,
    /// Median length of a wait, in seconds. Like all quantiles, it is off by at most 9.1 %. `None` without
    /// waits.
    pub p50_seconds: Option<f64>,
    /// 99th percentile of the waits, in seconds. `None` without waits.
    pub p99_seconds: Option<f64>,
    /// Time of the waits by cause, with every cause listed. The causes add up to `seconds`. `None` without
    /// waits, or if the attach mode cannot tell causes.
    pub causes: Option<Vec<CauseDocument>>,
    /// Other pods, and workloads outside of pods, that had the CPU during the waits, the longest first.
    /// `None` whenever `causes` is.
    pub culprits: Option<Vec<CulpritDocument<'a>>>,
    /// Seconds of the waits in which workloads that are not among `culprits` had the CPU. `None` whenever
    /// `causes` is.
    pub other_culprits_seconds: Option<f64>,
}

/// The part of the waits with one cause.
#[derive(Debug, JsonSchema, Serialize)]
pub struct CauseDocument {
    /// Why the runnable threads did not run, as in the label `cause` of `sysprobe_sched_wait_seconds_total`.
    #[schemars(schema_with = "causes")]
    pub cause: &'static str,
    #[serde(flatten)]
    pub part: PartDocument,
}

/// The part of the waits during which one other workload had the CPU.
#[derive(Debug, JsonSchema, Serialize)]
pub struct CulpritDocument<'a> {
    /// Kubernetes namespace. Empty outside of pods.
    pub namespace: &'a str,
    /// Pod name. Empty outside of pods.
    pub pod: &'a str,
    /// Outside of pods, the container name or id, systemd unit or cgroup path (untrusted text). Empty for a
    /// pod.
    pub container: &'a str,
    #[serde(flatten)]
    pub part: PartDocument,
}

/// A part of the waits.
#[derive(Debug, JsonSchema, Serialize)]
pub struct PartDocument {
    /// Time of this part of the waits, in seconds.
    pub seconds: f64,
    /// Seconds of this part of the waits per second of the window.
    pub seconds_per_second: Option<f64>,
    /// Share of this part in the time of all waits (0..1).
    pub share: f64,
}

impl<'a> WaitsDocument<'a> {
    /// `None` if the domain `sched` is off.
    pub(crate) fn new(finding: &'a Finding, subject: &Subject) -> Option<Self> {
        let waits = match finding {
            Finding::Off(_) => return None,
            Finding::NeverWaited => return Some(Self::default()),
            Finding::Waited(waits) => waits,
        };
        let mut document = Self {
            count: waits.count,
            seconds: waits.total,
            seconds_per_second: subject.per_second(waits.total),
            p50_seconds: waits.p50,
            p99_seconds: waits.p99,
            ..Self::default()
        };
        if let Some(division) = &waits.division {
            let cause = |one: &Part| CauseDocument { cause: one.cause.name(), part: part(one, subject) };
            document.causes = Some(division.causes.iter().map(cause).collect());
            let culprits = division.culprits.iter();
            document.culprits = Some(culprits.clone().filter_map(|one| culprit(one, subject)).collect());
            document.other_culprits_seconds =
                Some(culprits.filter(|one| one.who.is_none()).map(|one| one.seconds).sum());
        }
        Some(document)
    }
}

fn causes(_: &mut SchemaGenerator) -> Schema {
    one_of(Cause::EACH.map(Cause::name))
}

fn culprit<'a>(one: &'a Part, subject: &Subject) -> Option<CulpritDocument<'a>> {
    let Culprit { namespace, pod, container } = one.who.as_ref()?;
    Some(CulpritDocument { namespace, pod, container, part: part(one, subject) })
}

fn part(part: &Part, subject: &Subject) -> PartDocument {
    PartDocument {
        seconds: part.seconds,
        seconds_per_second: subject.per_second(part.seconds),
        share: part.share,
    }
}
