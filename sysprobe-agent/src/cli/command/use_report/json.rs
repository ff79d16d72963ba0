//! The part of the JSON form of `sysprobe use` that is specific to this command.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;

use super::model::{Behind, Measure, Sort, Unit, UseReport};
use crate::cli::json_schema::one_of;

/// The version of this form; it changes when a field is removed or changes its meaning.
pub const VERSION: u32 = 1;

#[derive(Debug, Default, JsonSchema, Serialize)]
pub struct Numbers<'a> {
    /// Measures of the node's resources, resource by resource.
    pub measures: Vec<MeasureDocument<'a>>,
}

/// One measure of a resource, by the USE method.
#[derive(Debug, JsonSchema, Serialize)]
pub struct MeasureDocument<'a> {
    /// The resource: `CPU`, `memory`, `disk NAME`, `link NAME` or `network`.
    pub resource: &'a str,
    /// Kind of the measure in the USE method: `utilisation` (how much is in use), `saturation` (how much
    /// waits) or `errors` (what fails).
    #[schemars(schema_with = "sorts")]
    pub sort: &'static str,
    /// What is measured, in words.
    pub what: &'static str,
    /// Value of the measure, in `unit`. `None` if it was not measured, or there was nothing to measure.
    pub value: Option<f64>,
    /// Unit of `value`. A `ratio` is a share from 0 to 1, a `number` the mean number at a time.
    #[schemars(schema_with = "units")]
    pub unit: &'static str,
    /// Whether the value has reached the threshold from which it needs attention.
    pub alarming: bool,
    /// The workload with the largest part. `None` if no workload has any, or none can be named.
    pub behind: Option<BehindDocument<'a>>,
}

/// The workload with the largest part of a measure.
#[derive(Debug, JsonSchema, Serialize)]
pub struct BehindDocument<'a> {
    /// Kubernetes namespace. Empty outside of pods.
    pub namespace: &'a str,
    /// Pod name. Empty outside of pods.
    pub pod: &'a str,
    /// Outside of pods, the container name or id, systemd unit or cgroup path (untrusted text). Empty for a
    /// pod.
    pub container: &'a str,
    /// The workload's part, in the `unit` beside it, which can differ from the unit of the whole measure.
    pub amount: f64,
    /// Unit of `amount`. A `ratio` is a share from 0 to 1, a `number` the mean number at a time.
    #[schemars(schema_with = "units")]
    pub unit: &'static str,
}

impl<'a> Numbers<'a> {
    pub(super) fn new(report: &'a UseReport) -> Self {
        Self { measures: report.lines.iter().map(measure).collect() }
    }
}

fn sorts(_: &mut SchemaGenerator) -> Schema {
    one_of(Sort::ALL.map(Sort::name))
}

fn units(_: &mut SchemaGenerator) -> Schema {
    one_of(Unit::ALL.map(Unit::name))
}

fn measure(measure: &Measure) -> MeasureDocument<'_> {
    MeasureDocument {
        resource: &measure.resource,
        sort: measure.sort.name(),
        what: measure.what,
        value: measure.value,
        unit: measure.unit.name(),
        alarming: measure.is_alarming(),
        behind: measure.behind.as_ref().map(behind),
    }
}

fn behind(behind: &Behind) -> BehindDocument<'_> {
    BehindDocument {
        namespace: &behind.who.namespace,
        pod: &behind.who.pod,
        container: &behind.who.container,
        amount: behind.amount,
        unit: behind.unit.name(),
    }
}
