//! The machine's resources by the USE method (<https://www.brendangregg.com/usemethod.html>): the
//! utilization, saturation and errors of each, with the pod that contributes most. The difference of two
//! snapshots; pure.

use std::time::Duration;

use crate::cli::rows::{PodRows, Row};
use crate::snapshot::{Beginning, Culprit, NodeSample, Snapshot};

mod parts;

/// All resources in a window.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct UseReport {
    pub(super) length: Duration,
    pub(super) lines: Vec<Measure>,
    /// Whether the agent reported the machine's counters.
    pub(super) is_told: bool,
}

/// One measure of a resource.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Measure {
    pub(super) resource: String,
    pub(super) sort: Sort,
    pub(super) what: &'static str,
    pub(super) value: Option<f64>,
    pub(super) unit: Unit,
    /// The value needs attention from this threshold on.
    pub(super) alarming_from: Option<f64>,
    pub(super) behind: Option<Behind>,
}

/// The kind of a measure in the USE method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    Utilisation,
    Saturation,
    Errors,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// From 0 to 1.
    Share,
    /// A mean number.
    Number,
    /// Seconds per second.
    Time,
    PerSecond,
    BytesPerSecond,
    Bytes,
}

/// The pod, or other workload, with the largest part of a measure.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Behind {
    pub(super) who: Culprit,
    pub(super) amount: f64,
    pub(super) unit: Unit,
}

impl UseReport {
    pub(super) fn new(earlier: &Snapshot, later: &Snapshot) -> Self {
        let length = later.window_since(earlier);
        let mut rows: Vec<Row> = PodRows::of(earlier, later, |_| true).rows().collect();
        rows.sort_by(|a, b| a.workload.cmp(&b.workload));
        let window = Window {
            seconds: length.as_secs_f64(),
            rows: &rows,
            before: earlier.beginning(),
            later,
            nodes: earlier.node.as_ref().zip(later.node.as_ref()),
        };
        Self { length, lines: window.measures(), is_told: later.node.is_some() }
    }
}

impl Measure {
    pub(super) fn is_alarming(&self) -> bool {
        self.value.zip(self.alarming_from).is_some_and(|(value, from)| value >= from)
    }
}

impl Sort {
    pub(super) const ALL: [Self; 3] = [Self::Utilisation, Self::Saturation, Self::Errors];

    pub(super) const fn letter(self) -> char {
        match self {
            Self::Utilisation => 'U',
            Self::Saturation => 'S',
            Self::Errors => 'E',
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Utilisation => "utilisation",
            Self::Saturation => "saturation",
            Self::Errors => "errors",
        }
    }
}

impl Unit {
    pub(super) const ALL: [Self; 6] =
        [Self::Share, Self::Number, Self::Time, Self::PerSecond, Self::BytesPerSecond, Self::Bytes];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Share => "ratio",
            Self::Number => "number",
            Self::Time => "seconds_per_second",
            Self::PerSecond => "per_second",
            Self::BytesPerSecond => "bytes_per_second",
            Self::Bytes => "bytes",
        }
    }
}

/// The input of all measures.
struct Window<'a> {
    seconds: f64,
    /// Pods, and workloads outside of pods.
    rows: &'a [Row],
    before: Beginning<'a>,
    later: &'a Snapshot,
    nodes: Option<(&'a NodeSample, &'a NodeSample)>,
}

#[cfg(test)]
mod tests;
