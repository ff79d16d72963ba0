//! Programs that tasks start.

use sysprobe_common::exec::{ExecLoss, ExecStats};

use super::Hook::{RawTp, TpBtf};
use super::map::words;
use super::{AttachMode, EntryCount, Member, Object, Probe, ProgramSet, SlotMaps, member, object, program};

pub(crate) const SLOTS: SlotMaps =
    SlotMaps { stats: "EXEC_STATS", known: "EXEC_SLOTS", free: "EXEC_FREE", room: "EXEC_ROOM" };

static OBJECT: Object = object!(
    "exec.o",
    &SLOTS.specs::<ExecStats, u64>(EntryCount::Slots),
    &[words("EXEC_LOSSES", ExecLoss::ALL.len())],
);

static MEMBERS: &[Member] = &[
    member("OFF_TASK_CGROUPS", &["task_struct.cgroups"]),
    member("OFF_TASK_FLAGS", &["task_struct.flags"]),
    member("OFF_CSS_CGROUP", &["cgroup_subsys_state.cgroup"]),
    member("OFF_CGROUP_KN", &["cgroup.kn"]),
    member("OFF_KN_ID", &["kernfs_node.id"]),
];

const STARTS: &str = "counts a program that a task starts";

pub(super) const PROBE: Probe = Probe {
    domain: "exec",
    summary: "Programs that tasks start (execve)",
    sets: &[
        ProgramSet {
            mode: AttachMode::TpBtf,
            object: OBJECT,
            programs: &[program("exec_tp", TpBtf("sched_process_exec"), STARTS)],
            members: MEMBERS,
            needs: &[],
        },
        ProgramSet {
            mode: AttachMode::RawTp,
            object: OBJECT,
            programs: &[program("exec_rt", RawTp("sched_process_exec"), STARTS)],
            members: MEMBERS,
            needs: &[],
        },
    ],
};
