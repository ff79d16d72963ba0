//! Pressure stall information in a snapshot.

use serde::{Deserialize, Serialize};

/// How long one workload's tasks waited for each resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PressureSample {
    pub cpu: StallSample,
    pub memory: StallSample,
    pub io: StallSample,
}

/// Totals of one resource; `None` where the kernel keeps none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StallSample {
    /// At least one task waited: `some`.
    pub waiting_ns: Option<u64>,
    /// All tasks that were not idle waited, so no work was done: `full`.
    pub stalled_ns: Option<u64>,
}
