//! What this host offers, collected once into plain data: the only input of the plan besides the configuration.
//! Nothing here decides anything, and nothing here changes anything.

mod btf;
mod cgroups;
mod clock;
mod cpus;
mod privilege;

use std::path::{Path, PathBuf};

pub use btf::{Layout, LayoutError};
pub use clock::monotonic;
pub use cpus::{Cpus, online as online_cpus};
pub use privilege::Privilege;
use serde::Serialize;

use crate::cgroup::mounts::KeyHierarchy;
use crate::config::Config;
use crate::probe;

/// Where the kernel shows its own types.
const KERNEL_BTF: &str = "/sys/kernel/btf/vmlinux";

/// Everything that the plan depends on.
#[derive(Clone, Debug, Serialize)]
pub struct Facts {
    pub kernel: String,
    pub cpus: Cpus,
    pub privilege: Privilege,
    /// How many threads there are now, which is what a map with an entry for each grows with.
    pub threads: u32,
    /// Offsets of the members and values of the enumerators that the probes want; an error says why there are none.
    pub layout: Result<Layout, String>,
    pub btf_path: PathBuf,
    pub hierarchy: Result<Hierarchy, String>,
    /// Whether `/proc` and the task iterator show every process of the host.
    pub sees_all_processes: bool,
}

/// The cgroup hierarchy whose ids tell workloads apart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Hierarchy {
    pub key: KeyHierarchy,
    /// The id of the cgroup at the mount's root; 1 if that is the hierarchy's.
    pub root_id: u64,
}

impl Facts {
    #[must_use]
    pub fn collect(config: &Config) -> Self {
        let btf_path = config.btf.clone().unwrap_or_else(|| KERNEL_BTF.into());
        Self {
            kernel: read_trimmed(Path::new("/proc/sys/kernel/osrelease")),
            cpus: Cpus::collect(),
            privilege: Privilege::collect(),
            threads: threads(),
            layout: Layout::read(&btf_path, probe::wanted()).map_err(|error| error.to_string()),
            btf_path,
            hierarchy: cgroups::collect(config.cgroup_root.as_deref()).map_err(|error| format!("{error:#}")),
            sees_all_processes: sees_all_processes(),
        }
    }
}

fn read_trimmed(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// The fourth field of `/proc/loadavg` is `RUNNING/ALL`.
fn threads() -> u32 {
    let loadavg = read_trimmed(Path::new("/proc/loadavg"));
    let field = loadavg.split(' ').nth(3).and_then(|field| field.split_once('/'));
    field.and_then(|(_, all)| all.parse().ok()).unwrap_or(0)
}

/// The inode of the first PID namespace is fixed: `PROC_PID_INIT_INO` of `include/linux/proc_ns.h`.
fn sees_all_processes() -> bool {
    std::fs::read_link("/proc/self/ns/pid").is_ok_and(|target| target.as_os_str() == "pid:[4026531836]")
}
