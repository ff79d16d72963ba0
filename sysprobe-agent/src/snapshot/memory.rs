//! Memory in a snapshot: what the controller's files say, and direct reclaim.

use serde::{Deserialize, Serialize};

/// What the memory controller keeps of one workload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemorySample {
    /// `None` once all of its cgroups have gone.
    pub levels: Option<MemoryLevels>,
    /// Processes that were killed for want of memory.
    pub oom_kills: Option<u64>,
    pub major_faults: Option<u64>,
}

/// Of the cgroups that there are at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryLevels {
    pub usage_bytes: u64,
    /// Without what the page cache could give up first.
    pub working_set_bytes: u64,
    /// `None` without a limit.
    pub limit_bytes: Option<u64>,
}

/// For how long tasks of one workload had to free memory themselves before they got some.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReclaimSample {
    pub reclaims: u64,
    pub took_ns: u64,
}

impl MemoryLevels {
    /// Of another cgroup of the same workload: it has a limit if all of them have.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            usage_bytes: self.usage_bytes + other.usage_bytes,
            working_set_bytes: self.working_set_bytes + other.working_set_bytes,
            limit_bytes: self.limit_bytes.zip(other.limit_bytes).map(|(own, other)| own + other),
        }
    }
}
