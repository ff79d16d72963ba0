//! Wakeup latency, context switches and time on CPU.

use sysprobe_common::sched::slices::StoredTask;
use sysprobe_common::sched::threads::Threads;
use sysprobe_common::sched::throttle::{Throttle, ThrottleStats};
use sysprobe_common::sched::{HashedTask, Pair, SchedStats, Timeline};

use super::Hook::{Fentry, Kprobe, OnDemand, RawTp, TaskIterator, TaskScan, TpBtf};
use super::map::{counters, hash, lru_hash, mapped_array, part_end, task_storage};
use super::{
    AttachMode, EntryCount, MapSpec, Member, Need, Object, Probe, Program, ProgramSet, SlotMaps, extra,
    member, object, optional, program, task_members,
};

/// The slots of run and wait times.
pub(crate) const SLOTS: SlotMaps =
    SlotMaps { stats: "SCHED_STATS", known: "SCHED_SLOTS", free: "SCHED_FREE", room: "SCHED_ROOM" };
/// The slots of throttled cgroups.
pub(crate) const THROTTLE_SLOTS: SlotMaps = SlotMaps {
    stats: "SCHED_THROTTLES",
    known: "SCHED_THR_SLOTS",
    free: "SCHED_THR_FREE",
    room: "SCHED_THR_ROOM",
};

static TIMES: [MapSpec; 4] =
    SLOTS.sharded_specs::<SchedStats, u64>(EntryCount::SlotShards, EntryCount::Slots);
static THROTTLES: [MapSpec; 4] = THROTTLE_SLOTS.specs::<ThrottleStats, u64>(EntryCount::Slots);
/// Further maps that both objects have.
static COMMON: [MapSpec; 6] = [
    mapped_array::<Timeline>("SCHED_TIMELINES", EntryCount::Cpus),
    lru_hash::<u64, Throttle>("SCHED_THR_QUEUES", EntryCount::Throttles),
    hash::<Pair, u64>("SCHED_INTERFERENCE", EntryCount::Interference),
    mapped_array::<Threads>("SCHED_SCAN", EntryCount::Slots),
    counters("SCHED_LOSSES"),
    part_end("SCHED_PART_END"),
];

/// Keeps state in task storage, and uses typed pointers (BTF).
static OBJECT: Object = object!(
    "sched.o",
    &TIMES,
    &THROTTLES,
    &COMMON,
    &task_storage::<StoredTask>("SCHED_TASKS", "SCHED_BUDGET"),
);
/// Keeps state in a hash, and uses plain addresses.
static HASH_OBJECT: Object = object!(
    "sched_hash.o",
    &TIMES,
    &THROTTLES,
    &COMMON,
    &[hash::<u64, HashedTask>("SCHED_TASKS", EntryCount::Tracked)],
);

macro_rules! members {
    ($($more:expr),* $(,)?) => {
        task_members![
            member("OFF_TASK_COMM", &["task_struct.comm"]),
            optional("OFF_TASK_DELAYED", &["task_struct.se.sched_delayed"]),
            member("OFF_TASK_EXIT_STATE", &["task_struct.exit_state"]),
            member("OFF_TASK_GROUP_QUEUE", &["task_struct.se.cfs_rq"]),
            member("OFF_TASK_LAST_ARRIVAL", &["task_struct.sched_info.last_arrival"]),
            member("OFF_TASK_NIVCSW", &["task_struct.nivcsw"]),
            member("OFF_TASK_NVCSW", &["task_struct.nvcsw"]),
            // Only on SMP kernels.
            optional("OFF_TASK_ON_CPU", &["task_struct.on_cpu"]),
            member("OFF_TASK_ON_CPU_TIME", &["task_struct.se.sum_exec_runtime"]),
            member("OFF_TASK_PID", &["task_struct.pid"]),
            member("OFF_TASK_QUEUED", &["task_struct.on_rq"]),
            member("OFF_TASK_RUN_DELAY", &["task_struct.sched_info.run_delay"]),
            member("OFF_TASK_RUN_COUNT", &["task_struct.sched_info.pcount"]),
            member("OFF_TASK_STATE", &["task_struct.__state", "task_struct.state"]),
            member("OFF_TASK_TGID", &["task_struct.tgid"]),
            optional("OFF_TASK_THROTTLED", &["task_struct.throttled"]),
            member("OFF_GROUP_QUEUE_QUEUE", &["cfs_rq.rq"]),
            optional("OFF_TASK_PARENT", &["task_struct.se.parent"]),
            member("OFF_GROUP_QUEUE_GROUP", &["cfs_rq.tg"]),
            member("OFF_SEQ_COUNT", &["seq_file.count"]),
            member("OFF_GROUP_CGROUP", &["task_group.css.cgroup"]),
            optional("OFF_GROUP_THROTTLED_TOTAL", &["task_group.cfs_bandwidth.throttled_time"]),
            optional("OFF_GROUP_QUEUES", &["task_group.cfs_rq"]),
            optional(
                "OFF_GROUP_QUEUE_EVER_HELD",
                &["cfs_rq.throttled_clock_pelt", "cfs_rq.throttled_clock_task"],
            ),
            optional("OFF_GROUP_QUEUE_THROTTLE_COUNT", &["cfs_rq.throttle_count"]),
            optional("OFF_GROUP_QUEUE_THREADS", &["cfs_rq.h_nr_queued", "cfs_rq.h_nr_running"]),
            optional("OFF_GROUP_QUEUE_THROTTLED_SINCE", &["cfs_rq.throttled_clock"]),
            optional("OFF_ENTITY_PARENT", &["sched_entity.parent"]),
            optional("OFF_ENTITY_QUEUE", &["sched_entity.cfs_rq"]),
            optional("OFF_GROUP_QUEUE_HELD_SINCE", &["cfs_rq.throttled_clock_self"]),
            optional("OFF_GROUP_QUEUE_HELD_TOTAL", &["cfs_rq.throttled_clock_self_time"]),
            member("OFF_QUEUE_CLOCK", &["rq.clock"]),
            member("OFF_QUEUE_CPU", &["rq.cpu"]),
            member("OFF_QUEUE_RUNNING", &["rq.curr"]),
            $($more),*
        ]
    };
}

static MEMBERS: &[Member] =
    members!(optional("ARGS_STORAGE_GET_RECUR", &["btf_bpf_task_storage_get_recur.()"]));
static HASH_MEMBERS: &[Member] = members!(member("OFF_TASK_START_TIME", &["task_struct.start_time"]));

/// Whether an attach mode keeps its state in a hash, which has to be sized, and not in local storage.
#[must_use]
pub const fn keeps_tasks_in_hash(mode: AttachMode) -> bool {
    matches!(mode, AttachMode::Kprobe | AttachMode::RawTp)
}

/// Whether an attach mode's programs remember a task's recent time slices, which other domains look up.
#[must_use]
pub const fn remembers_slices(mode: AttachMode) -> bool {
    matches!(mode, AttachMode::TpBtf)
}

/// Whether an attach mode's programs see each switch as it happens, and so know what occupied a CPU while
/// other tasks waited. Hooked functions run before the switch.
#[must_use]
pub const fn tells_causes(mode: AttachMode) -> bool {
    matches!(mode, AttachMode::TpBtf | AttachMode::RawTp)
}

const SWITCH: &str = "counts the waits and the CPU time of the task that leaves the CPU";
const NEW: &str = "creates the record of a new task";
const MOVE: &str = "records that a task moves to another cgroup";
const FREE: &str = "removes the record of a task that is freed";
const DEPART: &str = "divides a task's wait when it moves to another CPU";
const SOFTIRQ: &str = "measures how long softirqs run";
const INTERRUPT: &str = "measures how long device interrupts run";
/// The function that throttles a cgroup on a CPU. If its calls are not seen, throttled time counts for what
/// ran meanwhile.
pub const THROTTLE: &str = "tg_throttle_down";
/// If the kernel throttles individual tasks, switches alone are enough.
const PER_TASK: &str = "OFF_TASK_THROTTLED";
const THROTTLED: &str = "records that a group is throttled on a CPU";
const RELEASE: &str = "records which group is unthrottled";
const RESUME: &str = "counts a throttle of a group on a CPU, and its length";
const SEED: Program =
    program("sched_seed", TaskIterator, "creates the records of tasks that are older than the agent");
const SCAN: Program = extra("sched_scan", TaskScan, "counts all threads by state, every five seconds");
const FLUSH: Program =
    program("sched_flush", OnDemand, "counts the running task up to now, before the agent reads");

pub(super) const PROBE: Probe = Probe {
    domain: "sched",
    summary: "Wakeup latency, context switches and time on CPU. In attach modes that hook functions, the \
              program runs before the kernel counts the switch, so a task's last run is counted at its next \
              switch",
    sets: &[
        ProgramSet {
            mode: AttachMode::TpBtf,
            object: OBJECT,
            programs: &[
                program("sched_new_tp", TpBtf("task_newtask"), NEW),
                program("sched_move_tp", TpBtf("cgroup_attach_task"), MOVE),
                extra("sched_soft_b_tp", TpBtf("softirq_entry"), SOFTIRQ),
                extra("sched_soft_e_tp", TpBtf("softirq_exit"), SOFTIRQ),
                extra("sched_irq_b_tp", TpBtf("irq_handler_entry"), INTERRUPT),
                extra("sched_irq_e_tp", TpBtf("irq_handler_exit"), INTERRUPT),
                extra("sched_thr_fe", Fentry(THROTTLE), THROTTLED).unless(PER_TASK),
                extra("sched_rel_fe", Fentry("unthrottle_cfs_rq"), RELEASE).unless(PER_TASK),
                extra("sched_resume_fe", Fentry("tg_unthrottle_up"), RESUME).unless(PER_TASK),
                program("sched_depart_tp", TpBtf("sched_migrate_task"), DEPART),
                program("sched_switch_tp", TpBtf("sched_switch"), SWITCH),
                SEED,
                FLUSH,
                SCAN,
            ],
            members: MEMBERS,
            needs: &[Need::TaskStorage],
        },
        ProgramSet {
            mode: AttachMode::RawTp,
            object: HASH_OBJECT,
            programs: &[
                program("sched_new_rt", RawTp("task_newtask"), NEW),
                program("sched_free_rt", RawTp("sched_process_free"), FREE),
                program("sched_move_rt", RawTp("cgroup_attach_task"), MOVE),
                extra("sched_soft_b_rt", RawTp("softirq_entry"), SOFTIRQ),
                extra("sched_soft_e_rt", RawTp("softirq_exit"), SOFTIRQ),
                extra("sched_irq_b_rt", RawTp("irq_handler_entry"), INTERRUPT),
                extra("sched_irq_e_rt", RawTp("irq_handler_exit"), INTERRUPT),
                extra("sched_thr_kp", Kprobe(THROTTLE), THROTTLED).unless(PER_TASK),
                extra("sched_rel_kp", Kprobe("unthrottle_cfs_rq"), RELEASE).unless(PER_TASK),
                extra("sched_resume_kp", Kprobe("tg_unthrottle_up"), RESUME).unless(PER_TASK),
                program("sched_depart_rt", RawTp("sched_migrate_task"), DEPART),
                program("sched_switch_rt", RawTp("sched_switch"), SWITCH),
                FLUSH,
                SCAN,
            ],
            members: HASH_MEMBERS,
            needs: &[],
        },
        ProgramSet {
            mode: AttachMode::Fentry,
            object: OBJECT,
            programs: &[
                program("sched_new_fe", Fentry("wake_up_new_task"), NEW),
                program("sched_move_fe", Fentry("cgroup_attach_task"), MOVE),
                program("sched_switch_fe", Fentry("rcu_note_context_switch"), SWITCH),
                SEED,
                FLUSH,
                SCAN,
            ],
            members: MEMBERS,
            needs: &[Need::Trampolines, Need::TaskStorage],
        },
        ProgramSet {
            mode: AttachMode::Kprobe,
            object: HASH_OBJECT,
            programs: &[
                program("sched_new_kp", Kprobe("wake_up_new_task"), NEW),
                program("sched_free_kp", Kprobe("free_task"), FREE),
                program("sched_move_kp", Kprobe("cgroup_attach_task"), MOVE),
                program("sched_switch_kp", Kprobe("rcu_note_context_switch"), SWITCH),
                FLUSH,
                SCAN,
            ],
            members: HASH_MEMBERS,
            needs: &[Need::Kprobes],
        },
    ],
};
