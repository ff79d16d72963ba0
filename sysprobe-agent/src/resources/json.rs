//! What `sysprobe use` has in its JSON form beyond what all have.

use serde::Serialize;

use super::model::{Behind, Measure, Resources};

/// The version of this form; it changes when a field goes or changes its meaning.
pub const VERSION: u32 = 1;

#[derive(Debug, Default, Serialize)]
pub struct Numbers<'a> {
    pub measures: Vec<MeasureDocument<'a>>,
}

#[derive(Debug, Serialize)]
pub struct MeasureDocument<'a> {
    /// `CPU`, `memory`, `disk NAME`, `link NAME` or `network`.
    pub resource: &'a str,
    /// `utilisation`, `saturation` or `errors`.
    pub sort: &'static str,
    pub what: &'static str,
    /// `null` where it is not measured.
    pub value: Option<f64>,
    /// `ratio` (0..1), `number`, `seconds_per_second`, `per_second`, `bytes_per_second` or `bytes`.
    pub unit: &'static str,
    /// Whether somebody should look.
    pub alarming: bool,
    /// Who has most of it; `null` if nobody has any, or nobody can be told.
    pub behind: Option<BehindDocument<'a>>,
}

#[derive(Debug, Serialize)]
pub struct BehindDocument<'a> {
    /// Empty for what is no pod.
    pub namespace: &'a str,
    pub pod: &'a str,
    /// Empty for a pod as a whole.
    pub container: &'a str,
    pub amount: f64,
    pub unit: &'static str,
}

impl<'a> Numbers<'a> {
    pub(super) fn new(resources: &'a Resources) -> Self {
        Self { measures: resources.lines.iter().map(measure).collect() }
    }
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
