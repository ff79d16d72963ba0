//! The table of probes: which programs a domain has, where they attach, and which kernel members they read.
//! The plan, the loader, `sysprobe check` and `docs/probes.md` all come from it.
//!
//! A domain has several **attach modes**, the cheapest first: sets of programs that measure the same through
//! other hooks. Differences between kernels (missing functions, renamed members, other arguments) are rows
//! here, not branches in code.

pub(crate) mod block;
mod cgroup;
mod map;
mod members;
pub(crate) mod net;
mod program;
pub(crate) mod reclaim;
pub(crate) mod rxpath;
pub(crate) mod sched;
pub(crate) mod tcp;
pub(crate) mod vfs;

use clap::ValueEnum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A domain with BPF programs.
#[derive(Debug)]
pub struct Probe {
    pub domain: &'static str,
    pub summary: &'static str,
    /// In the order in which they are tried.
    pub sets: &'static [ProgramSet],
}

/// The programs of one attach mode, and what they need.
#[derive(Debug)]
pub struct ProgramSet {
    pub mode: AttachMode,
    pub object: Object,
    /// In the order in which they are attached.
    pub programs: &'static [Program],
    /// Offsets that the programs need as read-only globals.
    pub members: &'static [Member],
    pub needs: &'static [Need],
}

/// A compiled BPF object: programs and maps.
#[derive(Clone, Copy, Debug)]
pub struct Object {
    /// Its file name in a directory of objects.
    pub file: &'static str,
    pub bytes: &'static [u8],
    /// Its maps in groups, without those of globals.
    pub maps: &'static [&'static [MapSpec]],
}

/// Attach mode: the kind of hook to which a domain's programs are attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum AttachMode {
    /// Tracepoints with BTF types.
    TpBtf,
    /// Function entries and returns, by BPF trampoline.
    Fentry,
    /// Function entries and returns, by kprobe.
    Kprobe,
    /// Raw tracepoints, which need no BTF in the kernel.
    RawTp,
}

/// What an attach mode needs of the kernel beside its hooks and members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    Kprobes,
    Trampolines,
    TaskStorage,
    SocketStorage,
}

/// A global of the object and the kernel member whose offset it takes.
#[derive(Debug)]
pub struct Member {
    pub global: &'static str,
    /// Its names over time, the newest first. An enumerator gives its value, a `#` after a member its first
    /// bit within the byte, and `()` after a tracepoint's type, or after a member that points to a function,
    /// the number of its parameters.
    pub paths: &'static [&'static str],
    /// Whether the programs cannot do without it.
    pub required: bool,
}

/// The value of a global whose member the kernel does not have.
pub const ABSENT: u32 = u32::MAX;

/// The plan sets it to [`ABSENT`] if packets are steered to other CPUs, else to 0. It only decides which
/// programs are attached.
pub const UNSTEERED: &str = "CFG_UNSTEERED";
/// The plan sets it to [`ABSENT`] if the kernel has SCTP sockets, else to 0. It only decides which programs
/// are attached.
pub const NO_SCTP: &str = "CFG_NO_SCTP";

/// Every domain with BPF programs.
pub static PROBES: &[Probe] = &[
    cgroup::PROBE,
    sched::PROBE,
    vfs::PROBE,
    block::PROBE,
    tcp::PROBE,
    net::PROBE,
    rxpath::PROBE,
    reclaim::PROBE,
];

/// The programs of a domain's attach mode.
#[must_use]
pub fn program_set(domain: &str, mode: AttachMode) -> Option<&'static ProgramSet> {
    let probe = PROBES.iter().find(|probe| probe.domain == domain)?;
    probe.sets.iter().find(|set| set.mode == mode)
}

/// The domain of this row; `None` if the row is not in the table.
#[must_use]
pub fn domain_of(set: &ProgramSet) -> Option<&'static str> {
    let has = |probe: &&Probe| probe.sets.iter().any(|other| std::ptr::eq(other, set));
    PROBES.iter().find(has).map(|probe| probe.domain)
}

/// The position of an attach mode in its domain's row, the cheapest first.
#[must_use]
pub fn rank(domain: &str, mode: AttachMode) -> Option<usize> {
    let probe = PROBES.iter().find(|probe| probe.domain == domain)?;
    probe.sets.iter().position(|set| set.mode == mode)
}

/// One of the objects that are built into the agent, and its maps.
macro_rules! object {
    ($file:literal, $($maps:expr),+ $(,)?) => {
        $crate::probe::Object {
            file: $file,
            bytes: aya::include_bytes_aligned!(concat!(env!("SYSPROBE_EBPF"), "/", $file)),
            maps: &[$($maps),+],
        }
    };
}
pub use map::{EntryCount, MapKind, MapSpec, SlotMaps};
use members::{socket_members, task_members};
use object;
pub use program::{Hook, Program, Target};
pub use tcp::SOCKET_SCANS;

const fn member(global: &'static str, paths: &'static [&'static str]) -> Member {
    Member { global, paths, required: true }
}

const fn optional(global: &'static str, paths: &'static [&'static str]) -> Member {
    Member { global, paths, required: false }
}

/// A program that is left out if the kernel rejects it.
const fn extra(name: &'static str, hook: Hook, does: &'static str) -> Program {
    Program { required: false, ..Program::new(name, hook, does) }
}

const fn program(name: &'static str, hook: Hook, does: &'static str) -> Program {
    Program::new(name, hook, does)
}

/// How to get from a task's `css_set` to its cgroup: through the default hierarchy, or through a
/// controller's.
pub const CSS_SET_DEFAULT: &str = "css_set.dfl_cgrp";
pub const CSS_SET_SUBSYS: &str = "css_set.subsys";
/// The CPU controller's index in `css_set.subsys`.
pub const CPU_CONTROLLER: &str = "cgroup_subsys_id.cpu_cgrp_id";

/// Every member and enumerator that the table or the plan asks the BTF for.
pub fn wanted() -> impl Iterator<Item = &'static str> {
    let sets = PROBES.iter().flat_map(|probe| probe.sets);
    let of_programs = sets.flat_map(|set| set.members).flat_map(|member| member.paths).copied();
    of_programs.chain([CSS_SET_DEFAULT, CSS_SET_SUBSYS, CPU_CONTROLLER])
}

/// Whether a program is left out if the kernel has this global's member. The object need not contain such a
/// global.
#[must_use]
pub fn decides_on_programs(global: &str) -> bool {
    let sets = PROBES.iter().flat_map(|probe| probe.sets);
    sets.flat_map(|set| set.programs).any(|program| program.unless == Some(global))
}

/// All functions and tracepoints that the table hooks.
pub fn targets() -> impl Iterator<Item = Target> {
    let sets = PROBES.iter().flat_map(|probe| probe.sets);
    sets.flat_map(|set| set.programs).flat_map(Program::targets)
}

impl ProgramSet {
    /// The maps of its object, without those of globals.
    pub fn maps(&self) -> impl Iterator<Item = &'static MapSpec> + use<> {
        self.object.maps.iter().copied().flatten()
    }

    /// The programs on these tracepoints, by their names.
    #[must_use]
    pub fn on_tracepoints(&self, tracepoints: &[&str]) -> Vec<&'static str> {
        let is_on = |row: &&Program| match row.hook {
            Hook::TpBtf(tracepoint) | Hook::RawTp(tracepoint) => tracepoints.contains(&tracepoint),
            _ => false,
        };
        self.programs.iter().filter(is_on).map(|row| row.name).collect()
    }
}

impl Need {
    /// As in "this kernel has no ...".
    #[must_use]
    pub const fn means(self) -> &'static str {
        match self {
            Self::Kprobes => "kprobes (CONFIG_KPROBES)",
            Self::Trampolines => "ftrace direct calls for BPF trampolines (arm64: Linux 6.4)",
            Self::SocketStorage => "socket storage for tracing programs (Linux 5.11)",
            Self::TaskStorage => "task storage for tracing programs (Linux 5.13)",
        }
    }
}

impl AttachMode {
    /// As in `--attach`, labels and documents.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TpBtf => "tp_btf",
            Self::Fentry => "fentry",
            Self::Kprobe => "kprobe",
            Self::RawTp => "raw_tp",
        }
    }

    /// Whether it hooks functions, and not tracepoints or system calls.
    #[must_use]
    pub const fn hooks_functions(self) -> bool {
        matches!(self, Self::Fentry | Self::Kprobe)
    }

    #[must_use]
    pub const fn means(self) -> &'static str {
        match self {
            Self::TpBtf => "typed tracepoints",
            Self::Fentry => "functions, by BPF trampoline",
            Self::Kprobe => "functions, by kprobe",
            Self::RawTp => "raw tracepoints",
        }
    }
}

pub use net::DROP;
pub use sched::{THROTTLE, keeps_tasks_in_hash, remembers_slices, tells_causes};
pub use vfs::FAULT;

#[cfg(test)]
mod tests;
