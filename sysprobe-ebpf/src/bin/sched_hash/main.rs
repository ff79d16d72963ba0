//! Scheduler, for attach modes without task storage: the same numbers as the `sched` object. The state is in
//! a hash by the task's address, and helpers read kernel memory, so the verifier needs no types.
//!
//! A task is recorded when it is created, and an older one when it is first seen, with its totals as the
//! baseline. The hash is preallocated, because it is filled with a run queue locked.
#![no_std]
#![no_main]
#![expect(clippy::inline_always, reason = "a BPF-to-BPF call costs more than these bodies")]
#![expect(clippy::needless_pass_by_value, reason = "the macros call programs with an owned context")]

#[path = "../sched/accounting.rs"]
mod accounting;
#[path = "../sched/adding.rs"]
mod adding;
#[path = "../sched/delayed.rs"]
mod delayed;
#[path = "../sched/interference.rs"]
mod interference;
#[path = "../sched/losses.rs"]
mod losses;
#[path = "../sched/queue.rs"]
mod queue;
#[path = "../sched/queue_throttle.rs"]
mod queue_throttle;
#[path = "../sched/scan.rs"]
mod scan;
#[path = "../sched/slices.rs"]
mod slices;
#[path = "../sched/slots.rs"]
mod slots;
#[path = "../sched/stats.rs"]
mod stats;
#[path = "../sched/switch.rs"]
mod switch;
#[path = "../sched/task.rs"]
mod task;
#[path = "../sched/throttle.rs"]
mod throttle;
#[path = "../sched/timeline.rs"]
mod timeline;
#[path = "../sched/wait.rs"]
mod wait;

use aya_ebpf::btf_maps::HashMap;
use aya_ebpf::macros::{btf_map, kprobe, raw_tracepoint};
use aya_ebpf::programs::{ProbeContext, RawTracePointContext};
use sysprobe_common::sched::{HashedTask, SchedLoss, SchedTask};
use sysprobe_ebpf::cgroup::id_of_task;
use sysprobe_ebpf::globals;
use sysprobe_ebpf::kernel::{Address, Object};

use losses::lose;
use slots::find_slot;
use task::{CFG_AGENT_TGID, OFF_TASK_PID, OFF_TASK_TGID};

globals!(
    OFF_TASK_START_TIME,
    /// When the agent attached, in seconds of `CLOCK_MONOTONIC`, the clock of `task_struct.start_time`.
    CFG_STARTED_SECONDS,
    /// The nanoseconds of the same moment.
    CFG_STARTED_NANOSECONDS,
);

/// Sized by the agent.
#[btf_map]
static SCHED_TASKS: HashMap<u64, HashedTask, 1> = HashMap::new();

/// proto: v5.10- `void rcu_note_context_switch(bool preempt)`
///
/// See `sched_switch_fe` of the other object.
#[kprobe(function = "rcu_note_context_switch")]
fn sched_switch_kp(_ctx: ProbeContext) -> u32 {
    if let Some(task) = busy() {
        with_known(task, |known| accounting::book(task, known, None));
    }
    0
}

/// The tracepoint fires while `prev` is still current.
#[raw_tracepoint(tracepoint = "sched_switch")]
fn sched_switch_rt(_ctx: RawTracePointContext) -> i32 {
    match busy() {
        Some(task) => {
            if !with_known(task, |known| switch::leave(task, known, None)) {
                switch::leave_unknown(task);
            }
        }
        None => switch::wake(current()),
    }
    0
}

/// proto: v5.10- `(struct task_struct *p, int dest_cpu)`
#[raw_tracepoint(tracepoint = "sched_migrate_task")]
fn sched_depart_rt(ctx: RawTracePointContext) -> i32 {
    let task = Address(ctx.arg(0));
    if switch::is_moved(task)
        && let Some(known) = SCHED_TASKS.get_ptr_mut(task.0)
    {
        // SAFETY: an entry is freed with its task, which the kernel holds meanwhile.
        switch::depart(task, unsafe { &mut (*known).task }, ctx.arg(1));
    }
    0
}

/// proto: v5.10- `(unsigned int vec_nr)`
#[raw_tracepoint(tracepoint = "softirq_entry")]
fn sched_soft_b_rt(_ctx: RawTracePointContext) -> i32 {
    timeline::softirq_begins();
    0
}

/// proto: v5.10- `(unsigned int vec_nr)`
#[raw_tracepoint(tracepoint = "softirq_exit")]
fn sched_soft_e_rt(_ctx: RawTracePointContext) -> i32 {
    timeline::softirq_ends();
    0
}

/// proto: v5.10- `(int irq, struct irqaction *action)`
#[raw_tracepoint(tracepoint = "irq_handler_entry")]
fn sched_irq_b_rt(_ctx: RawTracePointContext) -> i32 {
    timeline::interrupt_begins();
    0
}

/// proto: v5.10- `(int irq, struct irqaction *action, int ret)`
#[raw_tracepoint(tracepoint = "irq_handler_exit")]
fn sched_irq_e_rt(_ctx: RawTracePointContext) -> i32 {
    timeline::interrupt_ends();
    0
}

/// proto: v5.10- `void wake_up_new_task(struct task_struct *p)`
#[kprobe(function = "wake_up_new_task")]
fn sched_new_kp(ctx: ProbeContext) -> u32 {
    if let Some(task) = ctx.arg::<u64>(0) {
        welcome(Address(task));
    }
    0
}

/// proto: v5.10- `(struct task_struct *task, unsigned long clone_flags)`
#[raw_tracepoint(tracepoint = "task_newtask")]
fn sched_new_rt(ctx: RawTracePointContext) -> i32 {
    welcome(Address(ctx.arg(0)));
    0
}

/// proto: v5.10- `void free_task(struct task_struct *tsk)`
#[kprobe(function = "free_task")]
fn sched_free_kp(ctx: ProbeContext) -> u32 {
    if let Some(task) = ctx.arg::<u64>(0) {
        forget(task);
    }
    0
}

/// proto: v5.10- `(struct task_struct *p)`
#[raw_tracepoint(tracepoint = "sched_process_free")]
fn sched_free_rt(ctx: RawTracePointContext) -> i32 {
    forget(ctx.arg(0));
    0
}

/// See `sched_move_fe` of the other object.
#[kprobe(function = "cgroup_attach_task")]
fn sched_move_kp(ctx: ProbeContext) -> u32 {
    if let Some(task) = ctx.arg::<u64>(1) {
        mark_moved(Address(task));
    }
    0
}

#[raw_tracepoint(tracepoint = "cgroup_attach_task")]
fn sched_move_rt(ctx: RawTracePointContext) -> i32 {
    mark_moved(Address(ctx.arg(2)));
    0
}

/// proto: v5.10-v6.17 `static int tg_throttle_down(struct task_group *tg, void *data)`, where `data` is the
/// run queue
#[kprobe(function = "tg_throttle_down")]
fn sched_thr_kp(ctx: ProbeContext) -> u32 {
    if let (Some(group), Some(queue)) = (ctx.arg(0), ctx.arg(1)) {
        queue_throttle::begins(Address(group), Address(queue));
    }
    0
}

/// proto: v5.10-v6.17 `void unthrottle_cfs_rq(struct cfs_rq *cfs_rq)`
#[kprobe(function = "unthrottle_cfs_rq")]
fn sched_rel_kp(ctx: ProbeContext) -> u32 {
    if let Some(queue) = ctx.arg(0) {
        queue_throttle::is_released(Address(queue));
    }
    0
}

/// proto: v5.10-v6.17 `static int tg_unthrottle_up(struct task_group *tg, void *data)`, where `data` is the
/// run queue
#[kprobe(function = "tg_unthrottle_up")]
fn sched_resume_kp(ctx: ProbeContext) -> u32 {
    if let (Some(group), Some(queue)) = (ctx.arg(0), ctx.arg(1)) {
        queue_throttle::ends(Address(group), Address(queue));
    }
    0
}

/// See the same program of the other object.
#[raw_tracepoint(tracepoint = "sched_switch")]
fn sched_flush(_ctx: RawTracePointContext) -> i32 {
    if let Some(task) = busy()
        && task.u32(&OFF_TASK_TGID) != Some(CFG_AGENT_TGID.load())
    {
        with_known(task, |known| switch::flush(task, known, None));
    }
    if let Some(line) = timeline::of_this_cpu() {
        interference::flush(line);
        line.asleep = u64::from(busy().is_none());
    }
    0
}

#[inline(always)]
fn current() -> Address {
    Address::current()
}

/// See `welcome` of the other object.
#[inline(always)]
fn welcome(task: Address) {
    let Some(born) = task.u64(&OFF_TASK_START_TIME) else {
        lose(SchedLoss::UnreadableTask);
        return;
    };
    let cgroup = id_of_task(task);
    let flags = timeline::flags_of_new(task);
    remember(task, born, SchedTask { cgroup, flags, slot: find_slot(task, cgroup), ..SchedTask::NEW });
}

#[inline(always)]
fn mark_moved(task: Address) {
    slots::count_move();
    if let Some(known) = SCHED_TASKS.get_ptr_mut(task.0) {
        // SAFETY: an entry is freed with its task, which the kernel holds meanwhile.
        task::mark_moved(task, unsafe { &mut (*known).task });
    }
}

#[inline(always)]
#[expect(
    clippy::let_underscore_must_use,
    reason = "a task that found the hash full, or is older than the agent and never ran since, is not there"
)]
fn forget(task: u64) {
    let _ = SCHED_TASKS.remove(task);
}

/// The current task, unless it is an idle one.
#[inline(always)]
fn busy() -> Option<Address> {
    let task = current();
    match task.u32(&OFF_TASK_PID) {
        Some(0) => None,
        Some(_) => Some(task),
        None => {
            lose(SchedLoss::UnreadableTask);
            None
        }
    }
}

/// Calls `act` with the record of the current task. Returns `false` if there is none.
#[inline(always)]
fn with_known(task: Address, act: impl FnOnce(&mut SchedTask)) -> bool {
    let Some(born) = task.u64(&OFF_TASK_START_TIME) else {
        lose(SchedLoss::UnreadableTask);
        return false;
    };
    let is_known = match SCHED_TASKS.get_ptr_mut(task.0) {
        // SAFETY: an entry is freed with its task, which is running here.
        Some(known) => has_been_born(unsafe { &mut *known }, born),
        None => false,
    };
    if !is_known && !meet(task, born) {
        return false;
    }
    let Some(known) = SCHED_TASKS.get_ptr_mut(task.0) else { return false };
    // SAFETY: as above.
    act(unsafe { &mut (*known).task });
    true
}

/// Whether the record is that of the task with this start time. A thread that calls `execve` takes over the
/// start time of its process' first thread (`de_thread`), which is earlier. The start time of another task
/// that now has this address is later.
#[inline(always)]
fn has_been_born(known: &mut HashedTask, born: u64) -> bool {
    if known.born > born {
        known.born = born;
    }
    known.born == born
}

/// Records an unknown task. If it is older than the agent, its totals are the baseline, and nothing is
/// counted yet. Otherwise the hash was full when the task was created. A task without room is not counted,
/// because the next switch would count the same time again.
#[inline(always)]
fn meet(task: Address, born: u64) -> bool {
    let flags = timeline::flags_of_new(task);
    if born >= started() {
        return remember(task, born, SchedTask { flags, ..SchedTask::NEW });
    }
    match task::baseline(task) {
        Some(past) => {
            remember(task, born, SchedTask { flags, ..past });
        }
        None => lose(SchedLoss::UnreadableTask),
    }
    false
}

#[inline(always)]
fn remember(task: Address, born: u64, so_far: SchedTask) -> bool {
    let has_room = SCHED_TASKS.insert(task.0, HashedTask { born, task: so_far }, 0).is_ok();
    if !has_room {
        lose(SchedLoss::TaskStorageFull);
    }
    has_room
}

#[inline(always)]
fn started() -> u64 {
    u64::from(CFG_STARTED_SECONDS.load()) * 1_000_000_000 + u64::from(CFG_STARTED_NANOSECONDS.load())
}

sysprobe_ebpf::object!();
