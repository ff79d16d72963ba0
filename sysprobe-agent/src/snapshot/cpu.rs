//! The CPU controller in a snapshot.

use serde::{Deserialize, Serialize};

/// The CPU controller's totals and settings of one workload, from its cgroup files.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuSample {
    pub usage_ns: Option<u64>,
    /// `None` where the cgroup has no bandwidth control (no `nr_periods` in `cpu.stat`).
    pub throttling: Option<Throttling>,
    /// Quota divided by period; `None` without a limit.
    pub quota_cores: Option<f64>,
    pub period_us: Option<u64>,
    pub burst_us: Option<u64>,
    /// `cpu.weight` (1..10000, default 100); from `cpu.shares` by the kubelet's formula on cgroup v1.
    pub weight: Option<u64>,
}

impl CpuSample {
    /// Only the totals.
    pub(crate) fn without_settings(self) -> Self {
        Self { usage_ns: self.usage_ns, throttling: self.throttling, ..Self::default() }
    }
}

/// `nr_periods`, `nr_throttled` and the throttled time of `cpu.stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Throttling {
    pub periods: u64,
    pub throttled_periods: u64,
    pub throttled_ns: u64,
}
