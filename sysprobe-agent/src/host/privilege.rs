//! The capabilities that loading tracing programs takes.

use caps::{CapSet, Capability};
use serde::Serialize;

/// The effective capabilities that matter here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Privilege {
    pub bpf: bool,
    pub perfmon: bool,
    pub sys_admin: bool,
}

impl Privilege {
    pub(super) fn collect() -> Self {
        let has = |capability| caps::has_cap(None, CapSet::Effective, capability).unwrap_or(false);
        Self {
            bpf: has(Capability::CAP_BPF),
            perfmon: has(Capability::CAP_PERFMON),
            sys_admin: has(Capability::CAP_SYS_ADMIN),
        }
    }

    /// What is missing for tracing programs. `CAP_SYS_ADMIN` stands for both, as in the kernel.
    #[must_use]
    pub fn missing(&self) -> Vec<&'static str> {
        if self.sys_admin {
            return Vec::new();
        }
        let wanted = [("CAP_BPF", self.bpf), ("CAP_PERFMON", self.perfmon)];
        wanted.into_iter().filter(|(_, has)| !has).map(|(name, _)| name).collect()
    }
}
