//! The names of the memory controller's files, and of their keys, on both versions of cgroups.

/// What is read of the memory controller.
#[derive(Debug)]
pub(crate) struct MemoryNames {
    pub(crate) limit: &'static str,
    pub(crate) usage: &'static str,
    pub(crate) events: &'static str,
    pub(crate) stat: &'static str,
    pub(crate) inactive_file: &'static str,
    pub(crate) major_faults: &'static str,
}

/// Totals that do not begin with `total_` exclude descendants.
pub(crate) static V1: MemoryNames = MemoryNames {
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    events: "memory.oom_control",
    stat: "memory.stat",
    inactive_file: "total_inactive_file",
    major_faults: "total_pgmajfault",
};

pub(crate) static V2: MemoryNames = MemoryNames {
    limit: "memory.max",
    usage: "memory.current",
    events: "memory.events",
    stat: "memory.stat",
    inactive_file: "inactive_file",
    major_faults: "pgmajfault",
};
