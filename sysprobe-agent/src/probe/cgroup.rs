//! Creation, removal and renaming of cgroups.

use sysprobe_common::cgroup::RING_BYTES;

use super::Hook::{Fentry, Kprobe, RawTp, TpBtf};
use super::map::{counters, ring_buffer};
use super::{AttachMode, Member, Need, Object, Probe, ProgramSet, member, object, optional, program};

static OBJECT: Object =
    object!("cgroup.o", &[ring_buffer("CGROUP_EVENTS", RING_BYTES), counters("CGROUP_COUNTS")]);

static MEMBERS: &[Member] = &[
    member("OFF_TASK_CGROUPS", &["task_struct.cgroups"]),
    member("OFF_CSS_CGROUP", &["cgroup_subsys_state.cgroup"]),
    member("OFF_CGROUP_KN", &["cgroup.kn"]),
    member("OFF_KN_ID", &["kernfs_node.id"]),
    member("OFF_KN_FLAGS", &["kernfs_node.flags"]),
    member("OFF_KN_NAME", &["kernfs_node.name"]),
    // Renamed in Linux 6.15.
    member("OFF_KN_PARENT", &["kernfs_node.__parent", "kernfs_node.parent"]),
    member("OFF_KN_ROOT", &["kernfs_node.dir.root"]),
    // For OOM kills; only some of these exist without CONFIG_MEMCG.
    optional("OFF_KN_CGROUP", &["kernfs_node.priv"]),
    optional("OFF_CGROUP_STATES", &["cgroup.subsys"]),
    optional("VAL_MEMORY_CONTROLLER", &["cgroup_subsys_id.memory_cgrp_id"]),
    optional("OFF_MEMCG_STATE", &["mem_cgroup.css"]),
    optional("OFF_MEMCG_EVENTS", &["mem_cgroup.memory_events"]),
    optional("VAL_OOM_KILL", &["memcg_memory_event.MEMCG_OOM_KILL"]),
];

const BORN: &str = "reports a new cgroup";
const DIED: &str = "reports a removed cgroup, and the OOM kills in it";
const RENAMED: &str = "reports a cgroup's new name";

pub(super) const PROBE: Probe = Probe {
    domain: "cgroup",
    summary: "Creations, removals and renames of cgroups. The attach modes that hook functions do not see \
              renames; the agent finds those when it walks the hierarchy every ten minutes",
    sets: &[
        ProgramSet {
            mode: AttachMode::TpBtf,
            object: OBJECT,
            programs: &[
                program("cgroup_born_tp", TpBtf("cgroup_mkdir"), BORN),
                program("cgroup_died_tp", TpBtf("cgroup_rmdir"), DIED),
                program("cgroup_name_tp", TpBtf("cgroup_rename"), RENAMED),
            ],
            members: MEMBERS,
            needs: &[],
        },
        ProgramSet {
            mode: AttachMode::RawTp,
            object: OBJECT,
            programs: &[
                program("cgroup_born_rt", RawTp("cgroup_mkdir"), BORN),
                program("cgroup_died_rt", RawTp("cgroup_rmdir"), DIED),
                program("cgroup_name_rt", RawTp("cgroup_rename"), RENAMED),
            ],
            members: MEMBERS,
            needs: &[],
        },
        ProgramSet {
            mode: AttachMode::Fentry,
            object: OBJECT,
            programs: &[
                program("cgroup_born_fe", Fentry("kernfs_activate"), BORN),
                program("cgroup_died_fe", Fentry("kernfs_remove"), DIED),
            ],
            members: MEMBERS,
            needs: &[Need::Trampolines],
        },
        ProgramSet {
            mode: AttachMode::Kprobe,
            object: OBJECT,
            programs: &[
                program("cgroup_born_kp", Kprobe("kernfs_activate"), BORN),
                program("cgroup_died_kp", Kprobe("kernfs_remove"), DIED),
            ],
            members: MEMBERS,
            needs: &[Need::Kprobes],
        },
    ],
};
