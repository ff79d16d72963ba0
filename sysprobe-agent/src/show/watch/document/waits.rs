//! What a workload waited for a CPU, in the JSON form.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;

use crate::{
    schema,
    show::{
        waits::{Cause, Finding, Part},
        watch::Subject,
    },
    snapshot::Culprit,
};

/// All of it is zero or `null` for a workload that did not wait.
#[derive(Debug, Default, JsonSchema, Serialize)]
pub struct WaitsDocument<'a> {
    /// Waits that ended in the window.
    pub count: u64,
    /// How long they were together.
    pub seconds: f64,
    /// Per second of the window: the mean number of waiting threads.
    pub seconds_per_second: Option<f64>,
    /// Wrong by at most 9.1 %; `null` without any.
    pub p50_seconds: Option<f64>,
    /// As `p50_seconds`.
    pub p99_seconds: Option<f64>,
    /// Every cause; they sum to `seconds`. `null` if the hooks in use cannot tell.
    pub causes: Option<Vec<CauseDocument>>,
    /// Who ran meanwhile, of other pods and what is no pod, the worst first.
    pub culprits: Option<Vec<CulpritDocument<'a>>>,
    /// What others did that have no place among the culprits.
    pub other_culprits_seconds: Option<f64>,
}

#[derive(Debug, JsonSchema, Serialize)]
pub struct CauseDocument {
    /// Why it did not run: as in the label `cause` of the metric.
    #[schemars(schema_with = "causes")]
    pub cause: &'static str,
    #[serde(flatten)]
    pub part: PartDocument,
}

#[derive(Debug, JsonSchema, Serialize)]
pub struct CulpritDocument<'a> {
    /// Empty for what is no pod.
    pub namespace: &'a str,
    /// Empty for what is no pod.
    pub pod: &'a str,
    /// Empty for a pod; else the systemd unit or the cgroup path: untrusted text.
    pub container: &'a str,
    #[serde(flatten)]
    pub part: PartDocument,
}

/// A part of the waits.
#[derive(Debug, JsonSchema, Serialize)]
pub struct PartDocument {
    pub seconds: f64,
    /// Per second of the window.
    pub seconds_per_second: Option<f64>,
    /// Of all waits (0..1).
    pub share: f64,
}

impl<'a> WaitsDocument<'a> {
    /// `None` where the scheduler is not watched.
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
    schema::one_of(Cause::EACH.map(Cause::name))
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
