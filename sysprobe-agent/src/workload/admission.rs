//! Who gets series of its own. Whoever does not is a part of `other`, so that sums over all stay true. It is
//! decided when a workload is first heard of, and stays so for as long as it is: a series that comes and goes
//! is worth less than none.

use crate::config::metrics::{Filter, MetricsConfig};
use crate::snapshot::{Hidden, WorkloadKind};

use super::Bearer;

/// What the configuration says of it.
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

    /// Why this one is a part of `other`, with so many that are not.
    pub(super) fn hides(&self, bearer: &Bearer, admitted: usize) -> Option<Hidden> {
        if matches!(bearer.kind, WorkloadKind::Kernel | WorkloadKind::Unknown) {
            return None;
        }
        let is_unwanted = bearer.pod.is_some()
            && !(self.namespaces.wants(&bearer.workload.namespace) && self.pods.wants(&bearer.workload.pod));
        if is_unwanted {
            return Some(Hidden::Unwanted);
        }
        (admitted >= self.workloads).then_some(Hidden::OverBudget)
    }
}
