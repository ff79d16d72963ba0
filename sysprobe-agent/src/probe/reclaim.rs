//! Direct reclaim.

use sysprobe_common::reclaim::{Begun, ReclaimStats};

use super::Hook::{RawTp, TpBtf};
use super::map::{counters, hash};
use super::{
    AttachMode, EntryCount, Member, Object, Probe, ProgramSet, SlotMaps, extra, object, program, task_members,
};

pub(crate) const SLOTS: SlotMaps =
    SlotMaps { stats: "RECLAIM_STATS", known: "RECLAIM_SLOTS", free: "RECLAIM_FREE", room: "RECLAIM_ROOM" };

static OBJECT: Object = object!(
    "reclaim.o",
    &SLOTS.specs::<ReclaimStats, u64>(EntryCount::Slots),
    &[hash::<u64, Begun>("RECLAIM_BEGUN", EntryCount::Reclaims), counters("RECLAIM_LOSSES")],
);

static MEMBERS: &[Member] = task_members![];

const BEGINS: &str = "records that a task has to free memory, because the machine is short of it";
const ENDS: &str = "counts the reclaim and its duration";
const LIMIT_BEGINS: &str = "records that a task has to free memory, because a cgroup has reached its limit";

pub(super) const PROBE: Probe = Probe {
    domain: "reclaim",
    summary: "Direct reclaim: how often and how long tasks had to free memory before they could allocate it, \
              because the machine was short of memory or a limit was reached. The tracepoints are in every \
              kernel. The functions around them are also called for other purposes, so no attach mode hooks \
              functions",
    sets: &[
        ProgramSet {
            mode: AttachMode::TpBtf,
            object: OBJECT,
            programs: &[
                program("reclaim_out_tp", TpBtf("mm_vmscan_direct_reclaim_end"), ENDS),
                program("reclaim_in_tp", TpBtf("mm_vmscan_direct_reclaim_begin"), BEGINS),
                extra("reclaim_cout_tp", TpBtf("mm_vmscan_memcg_reclaim_end"), ENDS),
                extra("reclaim_cin_tp", TpBtf("mm_vmscan_memcg_reclaim_begin"), LIMIT_BEGINS),
            ],
            members: MEMBERS,
            needs: &[],
        },
        ProgramSet {
            mode: AttachMode::RawTp,
            object: OBJECT,
            programs: &[
                program("reclaim_out_rt", RawTp("mm_vmscan_direct_reclaim_end"), ENDS),
                program("reclaim_in_rt", RawTp("mm_vmscan_direct_reclaim_begin"), BEGINS),
                extra("reclaim_cout_rt", RawTp("mm_vmscan_memcg_reclaim_end"), ENDS),
                extra("reclaim_cin_rt", RawTp("mm_vmscan_memcg_reclaim_begin"), LIMIT_BEGINS),
            ],
            members: MEMBERS,
            needs: &[],
        },
    ],
};
