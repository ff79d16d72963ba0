//! What this host offers, collected once into plain data: the only input of the plan besides the
//! configuration. Nothing here decides anything, and nothing here changes anything.

mod btf;
mod cgroups;
mod clock;
mod counters;
mod cpus;
pub mod known_bugs;
pub(crate) mod node;
mod own_memory;
mod privilege;
mod queues;
mod scale;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use btf::Types;
pub use btf::{BtfError, Layout};
pub use clock::{monotonic, monotonic_ns, thread_time, tick_ns, unix_ms};
pub use cpus::{Cpus, online as online_cpus};
pub use own_memory::{Charge, MemoryGroup};
pub(crate) use privilege::Lack;
pub use privilege::{Kernels, Need, Privilege, RIGHTS, Right};
pub use scale::Scale;
use schemars::JsonSchema;
use serde::Serialize;

use crate::cgroup::mounts::KeyHierarchy;
use crate::config::Config;
use crate::pods::PodFacts;
use crate::probe::{self, Target};
use crate::storage::Population;
pub use queues::{Queues, steers_packets};

/// Where the kernel shows its own types.
pub(crate) const KERNEL_BTF: &str = "/sys/kernel/btf/vmlinux";

/// Everything that the plan depends on.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Facts {
    /// Its release, as `uname -r` has it.
    pub kernel: String,
    pub cpus: Cpus,
    pub queues: Queues,
    pub scale: Scale,
    pub privilege: Privilege,
    /// How many threads there are now, which is what a map with an entry for each grows with.
    pub threads: u32,
    /// How many Internet sockets there are at most; `None` where the kernel does not tell.
    pub sockets: Option<u64>,
    /// The agent's own memory cgroups.
    pub memory_groups: Vec<MemoryGroup>,
    /// Offsets of the members and values of the enumerators that the probes want; an error says why there are
    /// none.
    pub layout: Result<Layout, String>,
    /// The kernel's names of why it drops packets, by number; none before 5.17.
    #[serde(skip)]
    pub drop_reasons: BTreeMap<u32, String>,
    /// The file from which the kernel's types are read.
    pub btf_path: PathBuf,
    pub offers: Offers,
    /// That whose ids tell workloads apart; an error says why there is none.
    pub hierarchy: Result<Hierarchy, String>,
    /// Whether `/proc` and the task iterator show every process of the host.
    pub sees_all_processes: bool,
    pub pods: PodFacts,
}

/// What programs can use of the running kernel. It is asked itself and not a file of types, which may hold no
/// more than some structs. `None` is what nobody knows.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Offers {
    /// What can be hooked, of what the probes want.
    pub targets: Option<BTreeSet<Target>>,
    /// Whether functions can be hooked by kprobes.
    pub kprobes: Option<bool>,
    /// Whether they can be hooked by BPF trampolines.
    pub trampolines: Option<bool>,
    /// Storage with each task that tracing programs may use.
    pub task_storage: Option<bool>,
    /// The same with each socket.
    pub socket_storage: Option<bool>,
}

/// The cgroup hierarchy whose ids tell workloads apart.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Hierarchy {
    /// Its version and where it is mounted.
    pub key: KeyHierarchy,
    /// The id of the cgroup at the mount's root; 1 if that is the hierarchy's.
    pub root_id: u64,
    /// Whether the memory controller is in it, or on v1 in another one beside it.
    pub memory: bool,
    pub pressure: Pressure,
}

/// Whether the kernel keeps pressure stall information for the cgroups of a hierarchy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Pressure {
    Kept,
    /// It could, but was started without.
    Off,
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
    /// `types` are the running kernel's.
    fn collect(types: Option<&Types>) -> Self {
        // The member came when tracing programs got task storage, in 5.13. The kind of map is older (5.11),
        // and was for security modules.
        const STORAGE: &str = "task_struct.bpf_storage";
        // A trampoline is a direct call of ftrace. x86-64 has had them for longer than Linux 5.10, whose BTF
        // may not list functions that cannot be traced themselves; arm64 got them in 6.4, and its trampolines
        // in 6.0, which attach to nothing.
        const DIRECT_CALLS: Target = Target::Function("register_ftrace_direct");
        // The helper as tracing programs have it.
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

/// Kprobes are attached through a performance counter of their own kind.
fn kprobes(counters: &Path) -> Option<bool> {
    counters.is_dir().then(|| counters.join("kprobe").exists())
}

fn read_trimmed(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// The inode of the first PID namespace is fixed: `PROC_PID_INIT_INO` of `include/linux/proc_ns.h`.
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
