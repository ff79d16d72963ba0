//! What `sysprobe use` has in its JSON form beyond what all have.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;

use super::model::{Behind, Measure, Resources, Sort, Unit};
use crate::schema;

/// The version of this form; it changes when a field goes or changes its meaning.
pub const VERSION: u32 = 1;

#[derive(Debug, Default, JsonSchema, Serialize)]
pub struct Numbers<'a> {
    /// One after the other by resource.
    pub measures: Vec<MeasureDocument<'a>>,
}

#[derive(Debug, JsonSchema, Serialize)]
pub struct MeasureDocument<'a> {
    /// `CPU`, `memory`, `disk NAME`, `link NAME` or `network`.
    pub resource: &'a str,
    /// As the method has it: how much is in use, how much waits, what fails.
    #[schemars(schema_with = "sorts")]
    pub sort: &'static str,
    /// What is measured, in words for people.
    pub what: &'static str,
    /// `null` where it is not measured.
    pub value: Option<f64>,
    /// Of `value`; a `ratio` is from 0 to 1, a `number` the mean of how many there were at a time.
    #[schemars(schema_with = "units")]
    pub unit: &'static str,
    /// Whether somebody should look.
    pub alarming: bool,
    /// Who has most of it; `null` if nobody has any, or nobody can be told.
    pub behind: Option<BehindDocument<'a>>,
}

#[derive(Debug, JsonSchema, Serialize)]
pub struct BehindDocument<'a> {
    /// Empty for what is no pod.
    pub namespace: &'a str,
    pub pod: &'a str,
    /// Empty for a pod as a whole.
    pub container: &'a str,
    /// How much of it, in `unit`, which need not be that of the whole.
    pub amount: f64,
    #[schemars(schema_with = "units")]
    pub unit: &'static str,
}

impl<'a> Numbers<'a> {
    pub(super) fn new(resources: &'a Resources) -> Self {
        Self { measures: resources.lines.iter().map(measure).collect() }
    }
}

fn sorts(_: &mut SchemaGenerator) -> Schema {
    schema::one_of(Sort::ALL.map(Sort::name))
}

fn units(_: &mut SchemaGenerator) -> Schema {
    schema::one_of(Unit::ALL.map(Unit::name))
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
