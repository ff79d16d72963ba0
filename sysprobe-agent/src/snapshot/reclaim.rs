//! Direct reclaim in a snapshot.

use serde::{Deserialize, Serialize};

/// Direct reclaim: how often tasks of one workload had to free memory before they got any, and for how long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReclaimSample {
    pub reclaims: u64,
    pub took_ns: u64,
}
