//! The machine's resources by the USE method (<https://www.brendangregg.com/usemethod.html>): of each, how
//! much of it is in use, what waits for it, and what fails; with the pod that is behind it most. The
//! difference of two snapshots; pure.

use std::{collections::HashMap, time::Duration};

use crate::{
    snapshot::{Culprit, NodeSample, Snapshot, Workload, WorkloadSample},
    top::rows::{self, Row, Selection},
};

mod parts;

/// All of them, in a window.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Resources {
    pub(super) length: Duration,
    pub(super) lines: Vec<Measure>,
    /// Whether the agent told of the machine.
    pub(super) is_told: bool,
}

/// One thing that is measured of a resource.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Measure {
    pub(super) resource: String,
    pub(super) sort: Sort,
    pub(super) what: &'static str,
    pub(super) value: Option<f64>,
    pub(super) unit: Unit,
    /// From this on somebody should look.
    pub(super) alarming_from: Option<f64>,
    pub(super) behind: Option<Behind>,
}

/// What sort of thing, as the method has it.
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

/// The pod (or what is none) that has most of it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Behind {
    pub(super) who: Culprit,
    pub(super) amount: f64,
    pub(super) unit: Unit,
}

impl Resources {
    pub(super) fn new(earlier: &Snapshot, later: &Snapshot) -> Self {
        let length = later.window_since(earlier);
        let all = Selection { all: true, pods: true, ..Selection::default() };
        let window = Window {
            seconds: length.as_secs_f64(),
            rows: &rows::rows(earlier, later, &all),
            before: earlier.by_workload(),
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

/// What measures are made from.
struct Window<'a> {
    seconds: f64,
    /// Pods, and what is none.
    rows: &'a [Row],
    before: HashMap<&'a Workload, &'a WorkloadSample>,
    later: &'a Snapshot,
    nodes: Option<(&'a NodeSample, &'a NodeSample)>,
}

#[cfg(test)]
mod tests;
