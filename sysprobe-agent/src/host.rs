//! The facts about this host, collected once into plain data: besides the configuration, the plan's only
//! input. Nothing here decides anything or changes anything.

mod btf;
mod cgroups;
mod clock;
pub(crate) mod counters;
mod cpus;
pub mod known_bugs;
pub(crate) mod memory_names;
pub(crate) mod node;
mod own_memory;
mod population;
mod privilege;
mod queues;
mod release;
mod scale;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use btf::Types;
pub use btf::{BtfError, Layout};
pub use clock::{monotonic, monotonic_ns, nanoseconds, thread_time, tick_ns, unix_ms};
pub use cpus::{Cpus, online as online_cpus};
pub use own_memory::{MemoryGroup, Usage};
pub use population::Population;
pub(crate) use privilege::Lack;
pub use privilege::{KPROBES_BEFORE, Kernels, Need, Privilege, RIGHTS, Right};
pub(crate) use release::is_before;
pub use scale::Scale;
use schemars::JsonSchema;
use serde::Serialize;

use crate::cgroup::mounts::KeyHierarchy;
use crate::config::Config;
use crate::pods::PodFacts;
use crate::probe::{self, Target};
pub use queues::{Queues, steers_packets};

/// The file with the running kernel's BTF.
pub(crate) const KERNEL_BTF: &str = "/sys/kernel/btf/vmlinux";

/// Everything about this host that the plan depends on.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Facts {
    /// Kernel release, as in `uname -r`.
    pub kernel: String,
    /// CPUs of this host.
    pub cpus: Cpus,
    /// Settings of this host's device queues.
    pub queues: Queues,
    /// Whether the kernel has SCTP sockets now. Its module is loaded when the first one is made.
    pub has_sctp: bool,
    /// Size of this host.
    pub scale: Scale,
    /// Capabilities and limits of this process.
    pub privilege: Privilege,
    /// Number of threads on the host now; 0 if unknown. Maps with an entry per thread grow with it.
    pub threads: u32,
    /// Upper bound of the number of Internet sockets now. `None` if the kernel does not report it.
    pub sockets: Option<u64>,
    /// The agent's own memory cgroup and its visible ancestors.
    pub memory_groups: Vec<MemoryGroup>,
    /// Kernel type information (BTF) that the BPF programs need, or why it is not available.
    pub layout: Result<Layout, String>,
    /// The kernel's names of why it drops packets, by number; none before 5.17.
    #[serde(skip)]
    pub drop_reasons: BTreeMap<u32, String>,
    /// File from which the kernel's types (BTF) are read.
    pub btf_path: PathBuf,
    /// What BPF programs can use on the running kernel.
    pub offers: Offers,
    /// The cgroup hierarchy whose cgroup ids identify workloads, or why there is none.
    pub hierarchy: Result<Hierarchy, String>,
    /// Whether `/proc` and task iterators show every process of the host.
    pub sees_all_processes: bool,
    /// What is available for finding pod names.
    pub pods: PodFacts,
}

/// What BPF programs can use on the running kernel. The kernel itself is asked, not a BTF file that the
/// configuration names, which may hold only a few structs. `None` means unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Offers {
    /// Functions and tracepoints that the agent's programs can attach to and this kernel has. `None` if
    /// unknown.
    pub targets: Option<BTreeSet<Target>>,
    /// Whether programs can be attached to functions by kprobe. `None` if unknown.
    pub kprobes: Option<bool>,
    /// Whether programs can be attached to functions by BPF trampoline (`fentry`). `None` if unknown.
    pub trampolines: Option<bool>,
    /// Whether tracing programs can use task storage. `None` if unknown.
    pub task_storage: Option<bool>,
    /// Whether tracing programs can use socket storage. `None` if unknown.
    pub socket_storage: Option<bool>,
}

/// The cgroup hierarchy whose cgroup ids identify workloads.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Hierarchy {
    /// Version of the hierarchy, and where it is mounted.
    pub key: KeyHierarchy,
    /// Id of the cgroup at the root of the mount; 1 if that is the root of the whole hierarchy.
    pub root_id: u64,
    /// Whether the memory controller is available: in the same hierarchy, or on cgroup v1 in another v1
    /// hierarchy.
    pub memory: bool,
    /// Whether the kernel keeps pressure stall information (PSI) for cgroups.
    pub pressure: Pressure,
}

/// Whether the kernel keeps pressure stall information (PSI) for cgroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Pressure {
    /// The kernel keeps it.
    Kept,
    /// The kernel supports it, but was started without it.
    Off,
    /// The kernel does not provide it in this hierarchy.
    Absent,
}

impl Facts {
    #[must_use]
    pub fn collect(config: &Config) -> Self {
        let own = Types::open(Path::new(KERNEL_BTF));
        let offers = Offers::collect(own.as_ref().ok());
        let btf_path = config.btf.clone().unwrap_or_else(|| KERNEL_BTF.into());
        let types = if config.btf.is_some() { Types::open(&btf_path) } else { own };
        let kernel = read_trimmed(Path::new("/proc/sys/kernel/osrelease"));
        let population = Population::read();
        let memory_groups = MemoryGroup::all();
        let hierarchy = cgroups::collect(config.cgroup_root.as_deref()).map_err(|error| format!("{error:#}"));
        Self {
            privilege: Privilege::collect(&kernel),
            kernel,
            cpus: Cpus::collect(),
            scale: Scale::collect(hierarchy.as_ref().ok(), &memory_groups),
            queues: Queues::collect(),
            has_sctp: node::has_protocol("SCTP"),
            threads: u32::try_from(population.tasks).unwrap_or(0),
            sockets: Some(population.sockets).filter(|sockets| *sockets != u64::MAX),
            memory_groups,
            drop_reasons: types.as_ref().map(Types::drop_reasons).unwrap_or_default(),
            layout: types
                .map(|types| Layout::of(&types, probe::wanted().chain(known_bugs::wanted())))
                .map_err(|error| error.to_string()),
            btf_path,
            offers,
            hierarchy,
            sees_all_processes: sees_all_processes(),
            pods: PodFacts::collect(),
        }
    }
}

impl Offers {
    /// `types` are the types of the running kernel.
    fn collect(types: Option<&Types>) -> Self {
        // The member came with task storage for tracing programs, in 5.13. The map type is older (5.11), but
        // was for security modules only.
        const STORAGE: &str = "task_struct.bpf_storage";
        // A trampoline is attached as a direct call of ftrace. x86-64 has had those since before Linux 5.10,
        // whose BTF may not list functions that cannot be traced themselves. arm64 has trampolines since 6.0
        // but direct calls only since 6.4, and before that its trampolines attach to nothing.
        const DIRECT_CALLS: Target = Target::Function("register_ftrace_direct");
        // The helper's variant for tracing programs.
        const SOCKET_STORAGE: Target = Target::Function("bpf_sk_storage_get_tracing");
        let wanted: BTreeSet<Target> = probe::targets().collect();
        let asked = wanted.iter().copied().chain([DIRECT_CALLS, SOCKET_STORAGE]);
        let found = types.map(|types| types.targets(asked));
        let has = |target| found.as_ref().map(|found| found.contains(&target));
        Self {
            targets: found.as_ref().map(|found| found & &wanted),
            kprobes: kprobes(Path::new("/sys/bus/event_source/devices")),
            trampolines: has(DIRECT_CALLS).filter(|has| *has || cfg!(target_arch = "aarch64")),
            task_storage: types
                .map(|types| Layout::of(types, std::iter::once(STORAGE)).get(STORAGE).is_some()),
            socket_storage: has(SOCKET_STORAGE),
        }
    }
}

/// Kprobes are attached through perf events of their own type.
fn kprobes(counters: &Path) -> Option<bool> {
    counters.is_dir().then(|| counters.join("kprobe").exists())
}

fn read_trimmed(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// The inode number of the initial PID namespace is fixed: `PROC_PID_INIT_INO` of `include/linux/proc_ns.h`.
fn sees_all_processes() -> bool {
    std::fs::read_link("/proc/self/ns/pid").is_ok_and(|target| target.as_os_str() == "pid:[4026531836]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_shown_is_unknown_and_not_missing() {
        let directory = tempfile::tempdir().expect("a directory");
        let counters = directory.path().join("devices");
        assert_eq!(kprobes(&counters), None);
        std::fs::create_dir(&counters).expect("made");
        assert_eq!(kprobes(&counters), Some(false));
        std::fs::create_dir(counters.join("kprobe")).expect("made");
        assert_eq!(kprobes(&counters), Some(true));
        let unknown = Offers::collect(None);
        assert_eq!(
            (unknown.targets, unknown.trampolines, unknown.task_storage, unknown.socket_storage),
            (None, None, None, None)
        );
    }
}
