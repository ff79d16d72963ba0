//! Memory in a snapshot: the numbers of the controller's files.

use serde::{Deserialize, Serialize};

/// The memory controller's numbers of one workload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemorySample {
    /// `None` once all of its cgroups were deleted.
    pub levels: Option<MemoryLevels>,
    /// OOM-killed processes.
    pub oom_kills: Option<u64>,
    pub major_faults: Option<u64>,
}

/// Gauges, over the cgroups that exist at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryLevels {
    pub usage_bytes: u64,
    /// Without inactive file pages, which are reclaimed first.
    pub working_set_bytes: u64,
    /// `None` without a limit.
    pub limit_bytes: Option<u64>,
}

impl MemoryLevels {
    /// Adds another cgroup of the same workload; there is a limit only if all cgroups have one.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            usage_bytes: self.usage_bytes + other.usage_bytes,
            working_set_bytes: self.working_set_bytes + other.working_set_bytes,
            limit_bytes: self.limit_bytes.zip(other.limit_bytes).map(|(own, other)| own + other),
        }
    }
}
