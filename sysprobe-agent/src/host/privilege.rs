//! The capabilities that the agent uses, in one table, and which of them this process has. `sysprobe check`
//! and the page of rights come from the table. A test drops capabilities one by one and compares.
//!
//! This module finds missing rights; the plan decides what to do about them.

use std::fmt;

use caps::{CapSet, Capability};
use schemars::JsonSchema;
use serde::Serialize;

use super::counters;
use super::release::is_before;

/// Capabilities and limits of this process.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact by itself")]
pub struct Privilege {
    /// Whether the process has `CAP_BPF`.
    pub bpf: bool,
    /// Whether the process has `CAP_PERFMON`.
    pub perfmon: bool,
    /// Whether the process has `CAP_SYS_RESOURCE`.
    pub sys_resource: bool,
    /// Whether the process has `CAP_SYS_ADMIN`, which implies `CAP_BPF` and `CAP_PERFMON`.
    pub sys_admin: bool,
    /// Whether the process has `CAP_DAC_READ_SEARCH`, or `CAP_DAC_OVERRIDE`, which implies it.
    pub dac_read_search: bool,
    /// Maximum memory in bytes for maps and programs (`RLIMIT_MEMLOCK`). `None` without a limit, or if the
    /// kernel does not charge them to it (Linux 5.11 and later).
    pub locked_memory_bytes: Option<u64>,
    /// Whether the process can open performance counters, through which kprobes are attached. `false` only if
    /// the kernel refuses permission.
    pub counters: bool,
}

/// A capability, and what the agent does with it.
#[derive(Debug)]
pub struct Right {
    pub capability: Capability,
    pub kernels: Kernels,
    pub need: Need,
    /// Its purpose, as the words after "to".
    pub does: &'static str,
    /// The consequence of lacking it, as the rest of a sentence that begins with the capability's name.
    pub without: &'static str,
    is_granted: fn(&Privilege) -> bool,
}

/// The kernels on which a capability is of use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernels {
    All,
    /// Older than this version.
    Before(u32, u32),
    /// Without a better hook than kprobes for every domain ([`KPROBES_BEFORE`]), and patched by a
    /// distribution so that only processes with this capability may open performance counters while
    /// `kernel.perf_event_paranoid` is above 2.
    GuardedKprobes,
}

/// The first version with a better hook than kprobes for every domain.
pub const KPROBES_BEFORE: (u32, u32) = if cfg!(target_arch = "aarch64") { ON_ARM64 } else { ON_X86 };
const ON_X86: (u32, u32) = (5, 13);
/// Functions can be hooked by `fentry` only since 6.4, but `net` has tracepoints since 6.3.
const ON_ARM64: (u32, u32) = (6, 3);

/// What depends on a capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Need {
    /// Whether BPF programs can be loaded at all.
    Programs,
    /// Whether all maps and programs fit into the limit on locked memory.
    Room,
    /// Whether programs can be attached to functions by kprobe.
    Kprobes,
    /// Whether cgroups that another user has closed can be read.
    ClosedCgroups,
    /// Whether the kernel's BPF statistics can be turned on.
    Statistics,
}

/// Kernels from this version on charge maps and programs to the memory controller instead.
const CHARGES_LOCKED_MEMORY: (u32, u32) = (5, 11);

const NO_PROGRAMS: &str =
    "the agent starts only if the configuration turns off all domains except `cpu`, `memory` and `pressure`";

/// Every capability that is of any use, the most needed first. Root has all of them; a container has those
/// that it is given.
pub const RIGHTS: &[Right] = &[
    Right {
        capability: Capability::CAP_BPF,
        kernels: Kernels::All,
        need: Need::Programs,
        does: "create maps and load programs",
        without: NO_PROGRAMS,
        is_granted: |has| has.bpf || has.sys_admin,
    },
    Right {
        capability: Capability::CAP_PERFMON,
        kernels: Kernels::All,
        need: Need::Programs,
        does: "load programs that read the kernel's memory, and attach them to tracepoints and functions",
        without: NO_PROGRAMS,
        is_granted: |has| has.perfmon || has.sys_admin,
    },
    Right {
        capability: Capability::CAP_SYS_RESOURCE,
        kernels: Kernels::Before(CHARGES_LOCKED_MEMORY.0, CHARGES_LOCKED_MEMORY.1),
        need: Need::Room,
        does: "lift the limit on locked memory, to which these kernels charge maps and programs",
        without: "all maps and programs have to fit into the limit on locked memory (`ulimit -l`, often 64 \
                  KiB or 8 MiB), and domains that do not fit are off",
        is_granted: |has| has.sys_resource || has.locked_memory_bytes.is_none(),
    },
    Right {
        capability: Capability::CAP_SYS_ADMIN,
        kernels: Kernels::GuardedKprobes,
        need: Need::Kprobes,
        does: "attach kprobes, where there is no better hook",
        without: "no kprobe can be attached (unless `kernel.perf_event_paranoid` is 2 or less): `net` is off \
                  before Linux 5.11, and on arm64 before 6.3; other domains see less",
        // If counters can be opened, no capability is missing.
        is_granted: |has| has.counters || has.sys_admin,
    },
    Right {
        capability: Capability::CAP_DAC_READ_SEARCH,
        kernels: Kernels::All,
        need: Need::ClosedCgroups,
        does: "list and read cgroups that are delegated to users other than root, where these users have \
               removed the right to read for all others",
        without: "such cgroups have no numbers from files, and those that are older than the agent have no \
                  numbers at all (containers of pods cannot cause this: their cgroups are read-only by \
                  default)",
        is_granted: |has| has.dac_read_search,
    },
    Right {
        capability: Capability::CAP_SYS_ADMIN,
        kernels: Kernels::All,
        need: Need::Statistics,
        does: "turn on the kernel's BPF statistics, for `sysprobe probes` and `program_statistics`",
        without: "`sysprobe probes` has no timings, and `sysprobe_agent_program_run_seconds_total` stays 0",
        is_granted: |has| has.sys_admin,
    },
];

/// Rights that the kernel requires and the process lacks.
#[derive(Debug, thiserror::Error)]
#[error("missing {}: run sysprobe as root, or grant {}", .0.join(" and "), pronoun(.0))]
pub struct MissingPrivileges(Vec<String>);

/// A capability that the agent would use here and this process lacks.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct Lack {
    /// Name of the capability, such as `CAP_BPF`.
    capability: String,
    /// What depends on the capability.
    need: Need,
    /// What the capability would be used for, as the words after "to".
    does: &'static str,
    /// What happens without the capability.
    without: &'static str,
}

// === impl Privilege ===

impl Privilege {
    /// `release` is the kernel's.
    pub(super) fn collect(release: &str) -> Self {
        let has = |capability| caps::has_cap(None, CapSet::Effective, capability).unwrap_or(false);
        Self {
            bpf: has(Capability::CAP_BPF),
            perfmon: has(Capability::CAP_PERFMON),
            sys_resource: has(Capability::CAP_SYS_RESOURCE),
            sys_admin: has(Capability::CAP_SYS_ADMIN),
            dac_read_search: has(Capability::CAP_DAC_READ_SEARCH) || has(Capability::CAP_DAC_OVERRIDE),
            locked_memory_bytes: locked_memory().filter(|_| is_before(release, CHARGES_LOCKED_MEMORY)),
            counters: counters::can_be_opened(),
        }
    }

    /// Every right that is missing. A right that a kernel of this release does not require is not missing.
    pub fn lacks(&self, release: &str) -> impl Iterator<Item = &'static Right> {
        self.not_granted().filter(move |right| right.kernels.include(release))
    }

    fn not_granted(&self) -> impl Iterator<Item = &'static Right> {
        RIGHTS.iter().filter(|right| !(right.is_granted)(self))
    }

    /// Fails with the rights that tracing programs need and the process lacks.
    pub fn require(&self) -> Result<(), MissingPrivileges> {
        let missing = self.missing();
        if missing.is_empty() { Ok(()) } else { Err(MissingPrivileges(missing)) }
    }

    /// Whether an error comes from [`require`](Self::require), which has an exit code of its own.
    #[must_use]
    pub fn were_missing(error: &anyhow::Error) -> bool {
        error.is::<MissingPrivileges>()
    }

    /// The rights that tracing programs need and the process lacks. As in the kernel, `CAP_SYS_ADMIN` implies
    /// both.
    #[must_use]
    pub fn missing(&self) -> Vec<String> {
        let needed = self.not_granted().filter(|right| right.need == Need::Programs);
        needed.map(|right| right.capability.to_string()).collect()
    }

    /// Warns that maps and programs may exceed the memory limit, because the kernel then says only that
    /// something is not permitted. The domains' own reasons name other missing rights.
    pub(crate) fn warning(&self) -> Option<String> {
        let right = self.not_granted().find(|right| right.need == Need::Room)?;
        let limit = self.locked_memory_bytes? / 1024;
        Some(format!("missing {}, and RLIMIT_MEMLOCK is {limit} KiB: {}", right.capability, right.without))
    }
}

const fn pronoun(rights: &[String]) -> &'static str {
    if rights.len() == 1 { "it" } else { "them" }
}

/// How far the limit can be raised without a right; `None` if it is unlimited.
fn locked_memory() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the address is of a live value.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut limit) } == 0;
    (known && limit.rlim_max != libc::RLIM_INFINITY).then_some(limit.rlim_max)
}

// === impl Lack ===

impl From<&Right> for Lack {
    fn from(right: &Right) -> Self {
        let Right { capability, need, does, without, .. } = right;
        Self { capability: capability.to_string(), need: *need, does, without }
    }
}

// === impl Kernels ===

impl Kernels {
    fn include(self, release: &str) -> bool {
        match self {
            Self::All => true,
            Self::Before(major, minor) => is_before(release, (major, minor)),
            Self::GuardedKprobes => is_before(release, KPROBES_BEFORE),
        }
    }
}

impl fmt::Display for Kernels {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => formatter.write_str("all"),
            Self::Before(major, minor) => write!(formatter, "before {major}.{minor}"),
            Self::GuardedKprobes => write!(
                formatter,
                "before {}.{} (on arm64 before {}.{}), if `kernel.perf_event_paranoid` is above 2 (as Debian \
                 has it)",
                ON_X86.0, ON_X86.1, ON_ARM64.0, ON_ARM64.1
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: Privilege = Privilege {
        bpf: true,
        perfmon: true,
        sys_resource: true,
        sys_admin: true,
        dac_read_search: true,
        locked_memory_bytes: Some(65_536),
        counters: true,
    };

    fn lacks(privilege: &Privilege, release: &str) -> Vec<String> {
        privilege.lacks(release).map(|right| format!("{} {:?}", right.capability, right.need)).collect()
    }

    #[test]
    fn sys_admin_stands_for_what_was_split_off_from_it() {
        assert!(lacks(&ROOT, "6.1.0").is_empty());
        let old = Privilege { bpf: false, perfmon: false, ..ROOT };
        assert!(lacks(&old, "6.1.0").is_empty() && old.require().is_ok());
        let none = Privilege { sys_admin: false, ..old };
        let expected = ["CAP_BPF Programs", "CAP_PERFMON Programs", "CAP_SYS_ADMIN Statistics"];
        assert_eq!(lacks(&none, "6.1.0"), expected);
        assert_eq!(none.missing(), ["CAP_BPF", "CAP_PERFMON"]);
        let message = |has: &Privilege| has.require().expect_err("a right is missing").to_string();
        let two = "missing CAP_BPF and CAP_PERFMON: run sysprobe as root, or grant them";
        assert_eq!(message(&none), two);
        let one = "missing CAP_BPF: run sysprobe as root, or grant it";
        assert_eq!(message(&Privilege { perfmon: true, ..none }), one);
    }

    #[test]
    fn a_limit_matters_where_there_is_one() {
        let limited = Privilege { sys_resource: false, ..ROOT };
        assert_eq!(lacks(&limited, "5.10.0"), ["CAP_SYS_RESOURCE Room"]);
        assert!(limited.require().is_ok(), "the agent starts all the same");
        let warning = limited.warning().expect("a warning");
        assert!(warning.contains("CAP_SYS_RESOURCE") && warning.contains("64 KiB"), "{warning}");
        let unlimited = Privilege { locked_memory_bytes: None, ..limited };
        assert!(lacks(&unlimited, "5.10.0").is_empty() && unlimited.warning().is_none());
    }

    #[test]
    fn kprobes_take_a_right_only_where_the_kernel_says_so_and_nothing_is_better() {
        let guarded = Privilege { sys_admin: false, counters: false, ..ROOT };
        assert_eq!(lacks(&guarded, "5.10.0"), ["CAP_SYS_ADMIN Kprobes", "CAP_SYS_ADMIN Statistics"]);
        assert_eq!(lacks(&Privilege { counters: true, ..guarded }, "5.10.0"), ["CAP_SYS_ADMIN Statistics"]);
        assert!(lacks(&Privilege { counters: false, ..ROOT }, "5.10.0").is_empty(), "something else says no");
        let (major, minor) = KPROBES_BEFORE;
        assert_eq!(lacks(&guarded, &format!("{major}.{minor}.0")), ["CAP_SYS_ADMIN Statistics"]);
    }
}
