//! The last OOM kills of a removed cgroup, which no reading of its files has counted.

use crate::domain::slots::Charge;
use crate::snapshot::WorkloadSample;

/// OOM kills that are known from a cgroup's removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LastKills(pub(super) u64);

impl LastKills {
    #[cfg(test)]
    pub(crate) const fn of(kills: u64) -> Self {
        Self(kills)
    }
}

impl Charge for LastKills {
    fn is_idle(&self) -> bool {
        self.0 == 0
    }

    fn add_to(&self, workload: &mut WorkloadSample) {
        *workload.memory.get_or_insert_default().oom_kills.get_or_insert(0) += self.0;
    }

    fn is_of_pods(&self) -> bool {
        false
    }
}
