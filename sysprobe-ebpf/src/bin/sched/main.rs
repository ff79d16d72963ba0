//! Scheduler: which cgroup waited for a CPU, how long, and which one ran. This object keeps its state in task
//! storage.
//!
//! The kernel keeps exact totals in every task: `sched_info` (its waits on run queues, by the run queue's own
//! clock), `se.sum_exec_runtime`, `nvcsw` and `nivcsw`. One program at each switch reads the totals of the
//! task that leaves the CPU and adds their growth since the last time. So there is no hook at wakeups and no
//! clock read, and the sums are the kernel's own. A wait is counted when the slice that ended it is over, or
//! at the agent's next flush.
//!
//! A task's last totals are in its task storage. `sched_new_*` creates it together with the task, and
//! `sched_seed` for tasks that are older than the agent. The switch never allocates, because it runs with the
//! run queue locked.
#![no_std]
#![no_main]
#![expect(clippy::inline_always, reason = "a BPF-to-BPF call costs more than these bodies")]
#![expect(clippy::needless_pass_by_value, reason = "the macros call programs with an owned context")]

mod accounting;
mod adding;
mod delayed;
mod interference;
mod losses;
mod queue;
mod queue_throttle;
mod scan;
mod slices;
mod slots;
mod stats;
mod switch;
mod task;
mod throttle;
mod timeline;
mod wait;

use core::ffi::c_void;

use aya_ebpf::macros::{btf_map, btf_tracepoint, fentry, raw_tracepoint};
use aya_ebpf::programs::{BtfTracePointContext, FEntryContext, RawTracePointContext};
use sysprobe_common::sched::slices::{Slices, StoredTask};
use sysprobe_common::sched::{SchedLoss, SchedTask};
use sysprobe_ebpf::cgroup::id_of_task;
use sysprobe_ebpf::iteration;
use sysprobe_ebpf::kernel::{Address, Typed};
use sysprobe_ebpf::storage::{Budget, TaskStorage};

use losses::lose;
use scan::SCHED_PART_END;
use slots::find_slot;
use task::{CFG_AGENT_TGID, OFF_TASK_PID, OFF_TASK_TGID};

#[unsafe(link_section = ".maps")]
#[unsafe(export_name = "SCHED_TASKS")]
static SCHED_TASKS: TaskStorage<StoredTask> = TaskStorage::new();
#[btf_map]
static SCHED_BUDGET: Budget = Budget::new();

/// proto: v5.10-v5.17 `(bool preempt, struct task_struct *prev, struct task_struct *next)`
/// proto: v5.18- `(…, unsigned int prev_state)`
#[btf_tracepoint(function = "sched_switch")]
fn sched_switch_tp(ctx: BtfTracePointContext) -> i32 {
    // SAFETY: the second argument is `prev`.
    let task = unsafe { Typed::new(ctx.arg(1)) };
    if is_idle(task) {
        // SAFETY: the third argument is `next`.
        switch::wake(unsafe { Typed::new(ctx.arg(2)) });
    } else if let Some(StoredTask { task: known, slices }) = stored(task) {
        switch::leave(task, known, Some(slices));
    } else {
        switch::leave_unknown(task);
    }
    0
}

/// proto: v5.10- `(struct task_struct *p, int dest_cpu)`
#[btf_tracepoint(function = "sched_migrate_task")]
fn sched_depart_tp(ctx: BtfTracePointContext) -> i32 {
    // SAFETY: the first argument is the task.
    let task = unsafe { Typed::new(ctx.arg(0)) };
    if switch::is_moved(task)
        && let Some(known) = known(task)
    {
        switch::depart(task, known, ctx.arg(1));
    }
    0
}

/// proto: v5.10- `(unsigned int vec_nr)`
#[btf_tracepoint(function = "softirq_entry")]
fn sched_soft_b_tp(_ctx: BtfTracePointContext) -> i32 {
    timeline::softirq_begins();
    0
}

/// proto: v5.10- `(unsigned int vec_nr)`
#[btf_tracepoint(function = "softirq_exit")]
fn sched_soft_e_tp(_ctx: BtfTracePointContext) -> i32 {
    timeline::softirq_ends();
    0
}

/// proto: v5.10- `(int irq, struct irqaction *action)`
#[btf_tracepoint(function = "irq_handler_entry")]
fn sched_irq_b_tp(_ctx: BtfTracePointContext) -> i32 {
    timeline::interrupt_begins();
    0
}

/// proto: v5.10- `(int irq, struct irqaction *action, int ret)`
#[btf_tracepoint(function = "irq_handler_exit")]
fn sched_irq_e_tp(_ctx: BtfTracePointContext) -> i32 {
    timeline::interrupt_ends();
    0
}

/// proto: v5.10- `void rcu_note_context_switch(bool preempt)`
///
/// Called in each pass through the scheduler with interrupts off, before the switch away from the current
/// task. The task's last moments and the switch are not in its totals yet and are counted the next time.
#[fentry(function = "rcu_note_context_switch")]
fn sched_switch_fe(_ctx: FEntryContext) -> i32 {
    let task = current();
    if !is_idle(task)
        && let Some(known) = known(task)
    {
        accounting::book(task, known, None);
    }
    0
}

/// Accounts for the task that runs on this CPU. The agent runs this on every CPU before it reads
/// (`BPF_PROG_TEST_RUN`), in an interrupt, so that a thread that never leaves its CPU does not look idle. The
/// agent skips CPUs that have been idle since the last flush.
#[raw_tracepoint(tracepoint = "sched_switch")]
fn sched_flush(_ctx: RawTracePointContext) -> i32 {
    let current = current();
    // On the agent's own CPU this is an ordinary call. A switch that interrupts it would count twice.
    if current.load_u32(&OFF_TASK_TGID) != CFG_AGENT_TGID.load() {
        flush(current);
    }
    if let Some(line) = timeline::of_this_cpu() {
        interference::flush(line);
        line.asleep = u64::from(is_idle(current));
    }
    0
}

/// proto: v5.10- `(struct task_struct *task, unsigned long clone_flags)`
#[btf_tracepoint(function = "task_newtask")]
fn sched_new_tp(ctx: BtfTracePointContext) -> i32 {
    // SAFETY: the first argument is the new task.
    welcome(unsafe { Typed::new(ctx.arg(0)) });
    0
}

/// proto: v5.10- `void wake_up_new_task(struct task_struct *p)`
#[fentry(function = "wake_up_new_task")]
fn sched_new_fe(ctx: FEntryContext) -> i32 {
    // SAFETY: the first argument is the new task.
    welcome(unsafe { Typed::new(ctx.arg(0)) });
    0
}

/// proto: v5.10- `(struct cgroup *dst_cgrp, const char *path, struct task_struct *task, bool threadgroup)`
///
/// The kernel reports only the first thread of a process.
#[btf_tracepoint(function = "cgroup_attach_task")]
fn sched_move_tp(ctx: BtfTracePointContext) -> i32 {
    // SAFETY: the third argument is the task.
    mark_moved(unsafe { Typed::new(ctx.arg(2)) });
    0
}

/// proto: v5.10- `int cgroup_attach_task(struct cgroup *dst_cgrp, struct task_struct *leader, bool
/// threadgroup)`
#[fentry(function = "cgroup_attach_task")]
fn sched_move_fe(ctx: FEntryContext) -> i32 {
    // SAFETY: the second argument is the task.
    mark_moved(unsafe { Typed::new(ctx.arg(1)) });
    0
}

/// proto: v5.10-v6.17 `static int tg_throttle_down(struct task_group *tg, void *data)`, where `data` is the
/// run queue
#[fentry(function = "tg_throttle_down")]
fn sched_thr_fe(ctx: FEntryContext) -> i32 {
    let (group, queue) = (Address(ctx.arg(0)), Address(ctx.arg(1)));
    queue_throttle::begins(group, queue);
    0
}

/// proto: v5.10-v6.17 `void unthrottle_cfs_rq(struct cfs_rq *cfs_rq)`
#[fentry(function = "unthrottle_cfs_rq")]
fn sched_rel_fe(ctx: FEntryContext) -> i32 {
    queue_throttle::is_released(Address(ctx.arg(0)));
    0
}

/// proto: v5.10-v6.17 `static int tg_unthrottle_up(struct task_group *tg, void *data)`, where `data` is the
/// run queue
#[fentry(function = "tg_unthrottle_up")]
fn sched_resume_fe(ctx: FEntryContext) -> i32 {
    let (group, queue) = (Address(ctx.arg(0)), Address(ctx.arg(1)));
    queue_throttle::ends(group, queue);
    0
}

/// Records a task that is older than the agent, with its totals as the baseline.
#[unsafe(link_section = "iter/task")]
#[unsafe(no_mangle)]
extern "C" fn sched_seed(ctx: *mut c_void) -> i32 {
    // SAFETY: the context is that of an `iter/task` program.
    let Some(task) = (unsafe { iteration::task(ctx, &SCHED_PART_END) }) else { return 0 };
    // A known task would take from the budget once more.
    if SCHED_TASKS.get(task).is_none()
        && let Some(past) = task::baseline(task)
    {
        register(task, SchedTask { flags: timeline::flags_of_new(task), ..past });
    }
    0
}

/// Records a new task. It is in its parent's cgroup, or in the one that the parent asked for. What it does
/// before a move to another cgroup (container runtimes move their processes) is charged there.
#[inline(always)]
fn welcome(task: Typed) {
    let cgroup = id_of_task(task);
    let flags = timeline::flags_of_new(task);
    register(task, SchedTask { cgroup, flags, slot: find_slot(task, cgroup), ..SchedTask::NEW });
}

#[inline(always)]
fn register(task: Typed, so_far: SchedTask) {
    let mut new = StoredTask { task: so_far, slices: Slices::NONE };
    SCHED_TASKS.make(task, &mut new, &SCHED_BUDGET, || lose(SchedLoss::TaskStorageFull));
}

#[inline(always)]
fn mark_moved(task: Typed) {
    slots::count_move();
    if let Some(last) = SCHED_TASKS.get(task) {
        // SAFETY: task storage stays valid while the task does.
        task::mark_moved(task, unsafe { &mut (*last).task });
    }
}

#[inline(always)]
fn current() -> Typed {
    Typed::current()
}

/// Checked first, because the look-up that it spares idle tasks is the most expensive step.
#[inline(always)]
fn is_idle(task: Typed) -> bool {
    task.load_u32(&OFF_TASK_PID) == 0
}

#[inline(always)]
fn known<'a>(task: Typed) -> Option<&'a mut SchedTask> {
    stored(task).map(|stored| &mut stored.task)
}

#[inline(always)]
fn stored<'a>(task: Typed) -> Option<&'a mut StoredTask> {
    let Some(known) = SCHED_TASKS.get(task) else {
        let is_busy = SCHED_TASKS.is_busy(task);
        lose(if is_busy { SchedLoss::TaskStorageBusy } else { SchedLoss::UnknownTask });
        return None;
    };
    // SAFETY: task storage stays valid while the task does, and is used with the task's run queue locked.
    Some(unsafe { &mut *known })
}

#[inline(always)]
fn flush(task: Typed) {
    if is_idle(task) {
        return;
    }
    match SCHED_TASKS.get(task) {
        Some(stored) => {
            // SAFETY: task storage stays valid while the task does, and it is running here.
            let StoredTask { task: known, slices } = unsafe { &mut *stored };
            switch::flush(task, known, Some(slices));
        }
        // The next switch accounts for it.
        None if SCHED_TASKS.is_busy(task) => {}
        None => lose(SchedLoss::UnknownTask),
    }
}

sysprobe_ebpf::object!();
