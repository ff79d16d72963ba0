//! Decides which workloads get series of their own. All others are summed in `other`, so that sums over all
//! workloads stay right. A workload that has series keeps them until it is gone, because a series that comes
//! and goes is worse than none. One that found no room gets series when there is some again.

use crate::config::metrics::{Filter, MetricsConfig};
use crate::snapshot::{Hidden, WorkloadKind};

use super::Owner;

/// The configured limits.
#[derive(Debug)]
pub(crate) struct Admission {
    namespaces: Filter,
    pods: Filter,
    workloads: usize,
}

impl Default for Admission {
    fn default() -> Self {
        Self::new(&MetricsConfig::default())
    }
}

impl Admission {
    pub(crate) fn new(config: &MetricsConfig) -> Self {
        Self {
            namespaces: config.namespaces.clone(),
            pods: config.pods.clone(),
            workloads: usize::try_from(config.workloads).unwrap_or(usize::MAX),
        }
    }

    /// The reason why a workload is part of `other`, given the number of admitted ones.
    pub(super) fn hides(&self, owner: &Owner, admitted: usize) -> Option<Hidden> {
        if matches!(owner.kind, WorkloadKind::Kernel | WorkloadKind::Unknown) {
            return None;
        }
        let is_unwanted = owner.pod.is_some()
            && !(self.namespaces.wants(&owner.workload.namespace) && self.pods.wants(&owner.workload.pod));
        if is_unwanted {
            return Some(Hidden::Unwanted);
        }
        (self.room(admitted) == 0).then_some(Hidden::OverBudget)
    }

    /// The number of workloads for which there is room beside the admitted ones.
    pub(super) const fn room(&self, admitted: usize) -> usize {
        self.workloads.saturating_sub(admitted)
    }
}
