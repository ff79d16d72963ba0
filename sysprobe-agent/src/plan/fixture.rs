//! Facts of hosts, for tests.

use std::collections::BTreeMap;

use crate::cgroup::mounts::KeyHierarchy;
use crate::host::{Cpus, Facts, Hierarchy, Layout, Offers, Pressure, Privilege, Queues, Scale};
use crate::pods::PodFacts;
use crate::probe;

pub(super) fn layout() -> Layout {
    Layout::from_pairs(probe::wanted().zip((0..).step_by(8)))
}

pub(super) fn v2() -> Hierarchy {
    let key = KeyHierarchy::V2 { root: "/sys/fs/cgroup".into() };
    Hierarchy { key, root_id: 1, memory: true, pressure: Pressure::Kept }
}

pub(crate) fn v1() -> Hierarchy {
    let at = |controller: &str| format!("/sys/fs/cgroup/{controller}").into();
    let key = KeyHierarchy::V1 { root: at("cpu"), cpuacct: None, memory: Some(at("memory")) };
    Hierarchy { key, root_id: 1, memory: true, pressure: Pressure::Absent }
}

/// The privileges of a container on a newer kernel.
pub(crate) const fn privilege() -> Privilege {
    Privilege {
        bpf: true,
        perfmon: true,
        sys_resource: false,
        sys_admin: false,
        dac_read_search: false,
        locked_memory_bytes: None,
        counters: true,
    }
}

/// `count` CPUs, all online, eight to a cache.
pub(crate) fn cpus(count: u32) -> Cpus {
    let online: Vec<u32> = (0..count).collect();
    Cpus { possible: count, caches: online.chunks(8).map(<[u32]>::to_vec).collect(), online }
}

/// A host that has everything.
pub(crate) fn facts() -> Facts {
    Facts {
        kernel: "6.12.0".into(),
        cpus: cpus(2),
        scale: Scale { memory_bytes: 16 << 30, memory_limit_bytes: None, cgroups: 200, disks: 2 },
        queues: Queues::default(),
        has_sctp: true,
        threads: 10_000,
        sockets: Some(2_000),
        memory_groups: Vec::new(),
        privilege: privilege(),
        layout: Ok(layout()),
        drop_reasons: BTreeMap::new(),
        btf_path: "/sys/kernel/btf/vmlinux".into(),
        offers: Offers {
            targets: Some(probe::targets().collect()),
            kprobes: Some(true),
            trampolines: Some(true),
            task_storage: Some(true),
            socket_storage: Some(true),
        },
        hierarchy: Ok(v2()),
        sees_all_processes: true,
        pods: PodFacts::default(),
    }
}
