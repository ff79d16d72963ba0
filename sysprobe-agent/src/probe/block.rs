//! Requests to block devices.

use sysprobe_common::block::{BlockStats, Key, Request};

use super::Hook::{RawTp, TpBtf};
use super::map::{counters, hash};
use super::{
    AttachMode, EntryCount, Member, Object, Probe, ProgramSet, SlotMaps, member, object, optional, program,
    task_members,
};

pub(crate) const SLOTS: SlotMaps =
    SlotMaps { stats: "BLOCK_STATS", known: "BLOCK_SLOTS", free: "BLOCK_FREE", room: "BLOCK_ROOM" };

static OBJECT: Object = object!(
    "block.o",
    &SLOTS.specs::<BlockStats, Key>(EntryCount::Devices),
    &[hash::<u64, Request>("BLOCK_IN_FLIGHT", EntryCount::Requests), counters("BLOCK_LOSSES")],
);

static MEMBERS: &[Member] = task_members![
    member("OFF_CGROUP_LEVEL", &["cgroup.level"]),
    optional("OFF_CGROUP_LINE_IDS", &["cgroup.ancestor_ids"]),
    optional("OFF_CGROUP_LINE", &["cgroup.ancestors"]),
    member("OFF_CGROUP_ROOT", &["cgroup.root"]),
    optional("OFF_BIO_BLKG", &["bio.bi_blkg"]),
    member("OFF_BIO_FLAGS", &["bio.bi_opf"]),
    member("OFF_BIO_SIZE", &["bio.bi_iter.bi_size"]),
    optional("OFF_BLKG_BLKCG", &["blkcg_gq.blkcg"]),
    optional("OFF_BLKCG_CGROUP", &["blkcg.css.cgroup"]),
    member("OFF_DISK_MAJOR", &["gendisk.major"]),
    member("OFF_DISK_MINOR", &["gendisk.first_minor"]),
    member("OFF_DISK_NAME", &["gendisk.disk_name"]),
    optional("OFF_QUEUE_DISK", &["request_queue.disk"]),
    member("OFF_RQ_BIO", &["request.bio"]),
    optional("OFF_RQ_DISK", &["request.rq_disk"]),
    member("OFF_RQ_END", &["request.end_io"]),
    member("OFF_RQ_FLAGS", &["request.cmd_flags"]),
    member("OFF_RQ_LENGTH", &["request.__data_len"]),
    member("OFF_RQ_QUEUE", &["request.q"]),
    member("OFF_RQ_STARTED", &["request.start_time_ns"]),
    member("OFF_RQ_STATE", &["request.rq_flags"]),
    optional("BIT_IO_STAT", &["rqf_flags.__RQF_IO_STAT"]),
    member("BIT_FUA", &["req_flag_bits.__REQ_FUA"]),
    member("BIT_PREFLUSH", &["req_flag_bits.__REQ_PREFLUSH"]),
    member("PARAMS_GETRQ", &["btf_trace_block_getrq.()"]),
    member("PARAMS_INSERT", &["btf_trace_block_rq_insert.()"]),
    member("PARAMS_ISSUE", &["btf_trace_block_rq_issue.()"]),
    member("PARAMS_MERGE", &["btf_trace_block_rq_merge.()"]),
    optional("VAL_TYPED_CURRENT", &["bpf_func_id.BPF_FUNC_get_current_task_btf"]),
];

const BEGINS: &str = "records the owner of a flush, or of a write through the device's cache";
const QUEUES: &str = "records the owner of a request when it is submitted";
const ISSUES: &str = "records when the driver gets the request";
const MERGES: &str = "removes a request that was merged into another";
const ENDS: &str = "counts the completed request";

pub(super) const PROBE: Probe = Probe {
    domain: "block",
    summary: "Requests to block devices: how many, how long, how long before the driver got them, how many \
              bytes, how many errors. The tracepoints are in every kernel. The functions around them are \
              inlined, so no attach mode hooks functions",
    sets: &[
        ProgramSet {
            mode: AttachMode::TpBtf,
            object: OBJECT,
            programs: &[
                program("block_done_tp", TpBtf("block_rq_complete"), ENDS),
                program("block_issue_tp", TpBtf("block_rq_issue"), ISSUES),
                program("block_queue_tp", TpBtf("block_rq_insert"), QUEUES),
                program("block_begin_tp", TpBtf("block_getrq"), BEGINS),
                program("block_merge_tp", TpBtf("block_rq_merge"), MERGES),
            ],
            members: MEMBERS,
            needs: &[],
        },
        ProgramSet {
            mode: AttachMode::RawTp,
            object: OBJECT,
            programs: &[
                program("block_done_rt", RawTp("block_rq_complete"), ENDS),
                program("block_issue_rt", RawTp("block_rq_issue"), ISSUES),
                program("block_queue_rt", RawTp("block_rq_insert"), QUEUES),
                program("block_begin_rt", RawTp("block_getrq"), BEGINS),
                program("block_merge_rt", RawTp("block_rq_merge"), MERGES),
            ],
            members: MEMBERS,
            needs: &[],
        },
    ],
};
