//! The receive path in a snapshot.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::HistogramSample;

/// How long what one workload read had been on its way, by protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RxpathSample {
    pub protocols: BTreeMap<String, PathSample>,
}

/// There are as many in each stage as in all, and the stages' sums make up the whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathSample {
    /// In the order of the way. A stage that this kernel cannot tell from the next is one with it.
    pub stages: Vec<StageSample>,
    pub total: HistogramSample,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageSample {
    /// The value of the `stage` label: `FROM_to_TO`.
    pub name: String,
    pub latency: HistogramSample,
}
