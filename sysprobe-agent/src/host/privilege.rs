//! The capabilities that loading tracing programs takes.

use caps::{CapSet, Capability};
use schemars::JsonSchema;
use serde::Serialize;

/// The effective capabilities that matter here.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Privilege {
    /// `CAP_BPF`.
    pub bpf: bool,
    /// `CAP_PERFMON`.
    pub perfmon: bool,
    /// `CAP_SYS_ADMIN`, which stands for both.
    pub sys_admin: bool,
}

/// Rights that the kernel asks for and the process does not have.
#[derive(Debug, thiserror::Error)]
#[error("the process lacks {}: run it as root, or grant it", .0.join(" and "))]
pub struct MissingPrivileges(Vec<&'static str>);

impl Privilege {
    pub(super) fn collect() -> Self {
        let has = |capability| caps::has_cap(None, CapSet::Effective, capability).unwrap_or(false);
        Self {
            bpf: has(Capability::CAP_BPF),
            perfmon: has(Capability::CAP_PERFMON),
            sys_admin: has(Capability::CAP_SYS_ADMIN),
        }
    }

    /// Fails with what is missing for tracing programs.
    pub fn require(&self) -> Result<(), MissingPrivileges> {
        let missing = self.missing();
        if missing.is_empty() { Ok(()) } else { Err(MissingPrivileges(missing)) }
    }

    /// Whether an error is that of [`require`](Self::require), which has an exit code of its own.
    #[must_use]
    pub fn were_missing(error: &anyhow::Error) -> bool {
        error.is::<MissingPrivileges>()
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
