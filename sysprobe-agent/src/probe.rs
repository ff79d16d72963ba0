//! The table of probes: which programs a domain has, where they hook, and which kernel members they read. The plan, the
//! loader, `sysprobe check` and `docs/probes.md` all come from it.

/// A domain that has programs in the kernel.
#[derive(Debug)]
pub struct Probe {
    pub domain: &'static str,
    pub summary: &'static str,
    /// The compiled programs and maps.
    pub object: &'static [u8],
    /// In the order in which they are attached.
    pub programs: &'static [Program],
    /// Offsets that the programs want as read-only globals.
    pub members: &'static [Member],
}

#[derive(Debug)]
pub struct Program {
    pub name: &'static str,
    pub hook: Hook,
    pub does: &'static str,
}

/// How a program gets to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// A typed tracepoint.
    TpBtf(&'static str),
    /// Never attached: the agent runs it on each CPU before it reads.
    OnDemand,
    /// An iterator over all tasks, run once at start.
    TaskIterator,
}

/// A global of the object and the kernel member whose offset it takes.
#[derive(Debug)]
pub struct Member {
    pub global: &'static str,
    pub path: &'static str,
}

const fn member(global: &'static str, path: &'static str) -> Member {
    Member { global, path }
}

/// Every domain with kernel programs.
pub static PROBES: &[Probe] = &[
    Probe {
        domain: "cgroup",
        summary: "Births, deaths and renames of cgroups",
        object: aya::include_bytes_aligned!(concat!(env!("SYSPROBE_EBPF"), "/cgroup.o")),
        programs: &[
            Program { name: "cgroup_mkdir", hook: Hook::TpBtf("cgroup_mkdir"), does: "tells of a birth" },
            Program { name: "cgroup_rmdir", hook: Hook::TpBtf("cgroup_rmdir"), does: "tells of a death" },
            Program {
                name: "cgroup_rename",
                hook: Hook::TpBtf("cgroup_rename"),
                does: "tells of a new name",
            },
        ],
        members: &[
            member("OFF_CGROUP_KN", "cgroup.kn"),
            member("OFF_CGROUP_ROOT", "cgroup.root"),
            member("OFF_KN_ID", "kernfs_node.id"),
            member("OFF_ROOT_HIERARCHY", "cgroup_root.hierarchy_id"),
        ],
    },
    Probe {
        domain: "sched",
        summary: "Wakeup latency, context switches and time on CPU",
        object: aya::include_bytes_aligned!(concat!(env!("SYSPROBE_EBPF"), "/sched.o")),
        programs: &[
            Program {
                name: "sched_newtask",
                hook: Hook::TpBtf("task_newtask"),
                does: "gives a new task its storage, outside of any lock",
            },
            Program {
                name: "sched_switch",
                hook: Hook::TpBtf("sched_switch"),
                does: "books what the task that leaves the CPU has waited and run",
            },
            Program {
                name: "sched_seed",
                hook: Hook::TaskIterator,
                does: "takes the past of older tasks as baseline",
            },
            Program {
                name: "sched_flush",
                hook: Hook::OnDemand,
                does: "books the task that is running, before the agent reads",
            },
        ],
        members: &[
            member("OFF_TASK_CGROUPS", "task_struct.cgroups"),
            member("OFF_TASK_FLAGS", "task_struct.flags"),
            member("OFF_TASK_NIVCSW", "task_struct.nivcsw"),
            member("OFF_TASK_NVCSW", "task_struct.nvcsw"),
            member("OFF_TASK_ON_CPU_TIME", "task_struct.se.sum_exec_runtime"),
            member("OFF_TASK_PID", "task_struct.pid"),
            member("OFF_TASK_RUN_DELAY", "task_struct.sched_info.run_delay"),
            member("OFF_TASK_RUN_COUNT", "task_struct.sched_info.pcount"),
            member("OFF_TASK_TGID", "task_struct.tgid"),
            member("OFF_CSS_CGROUP", "cgroup_subsys_state.cgroup"),
            member("OFF_CGROUP_KN", "cgroup.kn"),
            member("OFF_KN_ID", "kernfs_node.id"),
        ],
    },
];

/// Members that several domains need to get from a task to its cgroup, by way of the key hierarchy.
pub const CSS_SET_DEFAULT: &str = "css_set.dfl_cgrp";
pub const CSS_SET_SUBSYS: &str = "css_set.subsys";
/// The cpu controller's place in `css_set.subsys`.
pub const CPU_CONTROLLER: &str = "cgroup_subsys_id.cpu_cgrp_id";

/// Every member and enumerator that the table or the plan asks the BTF for.
pub fn wanted() -> impl Iterator<Item = &'static str> {
    let of_programs = PROBES.iter().flat_map(|probe| probe.members).map(|member| member.path);
    of_programs.chain([CSS_SET_DEFAULT, CSS_SET_SUBSYS, CPU_CONTROLLER])
}

impl Hook {
    /// The name of the tier, as in `--attach`, labels and documents.
    #[must_use]
    pub const fn tier(self) -> &'static str {
        match self {
            Self::TpBtf(_) => "tp_btf",
            Self::OnDemand => "raw_tp, run by the agent",
            Self::TaskIterator => "iter/task",
        }
    }
}
