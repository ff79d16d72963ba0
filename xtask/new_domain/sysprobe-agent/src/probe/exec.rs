//! Programs that tasks start.

use sysprobe_common::exec::ExecStats;

use super::Hook::{RawTp, TpBtf};
use super::map::counters;
use super::{
    AttachMode, EntryCount, Member, Object, Probe, ProgramSet, SlotMaps, object, program, task_members,
};

pub(crate) const SLOTS: SlotMaps =
    SlotMaps { stats: "EXEC_STATS", known: "EXEC_SLOTS", free: "EXEC_FREE", room: "EXEC_ROOM" };

static OBJECT: Object =
    object!("exec.o", &SLOTS.specs::<ExecStats, u64>(EntryCount::Slots), &[counters("EXEC_LOSSES")],);

static MEMBERS: &[Member] = task_members![];

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
