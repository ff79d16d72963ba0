//! Scheduler, for kernels and hooks without task storage: the same numbers as the `sched` object, with a hash by the
//! task's address instead, and with reads that the verifier need not understand.
//!
//! A task is made known at its birth, an older one the first time it is seen, with its past as the baseline. The hash is
//! preallocated: it is filled with a run queue locked.
#![no_std]
#![no_main]
#![expect(clippy::inline_always, reason = "a BPF-to-BPF call costs more than these bodies")]
#![expect(clippy::needless_pass_by_value, reason = "the macros call programs with an owned context")]

#[path = "../sched/book.rs"]
mod book;
#[path = "../sched/slots.rs"]
mod slots;

use aya_ebpf::btf_maps::HashMap;
use aya_ebpf::helpers::generated::bpf_get_current_task;
use aya_ebpf::macros::{btf_map, kprobe, raw_tracepoint};
use aya_ebpf::programs::{ProbeContext, RawTracePointContext};
use sysprobe_common::sched::{HashedTask, SchedLoss, SchedTask};
use sysprobe_ebpf::cgroup::id_of_task;
use sysprobe_ebpf::kernel::{Address, Object};
use sysprobe_ebpf::settings;

use book::{CFG_AGENT_TGID, OFF_TASK_PID, OFF_TASK_TGID, lose};
use slots::find_slot;

settings!(
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
    book(current());
    0
}

/// The tracepoint fires while `prev` is still current.
#[raw_tracepoint(tracepoint = "sched_switch")]
fn sched_switch_rt(_ctx: RawTracePointContext) -> i32 {
    book(current());
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

/// See the same program of the other object.
#[raw_tracepoint(tracepoint = "sched_switch")]
fn sched_flush(_ctx: RawTracePointContext) -> i32 {
    let current = current();
    if current.u32(&OFF_TASK_TGID) != Some(CFG_AGENT_TGID.load()) {
        book(current);
    }
    0
}

#[inline(always)]
fn current() -> Address {
    // SAFETY: the helper only returns an address.
    Address(unsafe { bpf_get_current_task() })
}

/// See `welcome` of the other object.
#[inline(always)]
fn welcome(task: Address) {
    let Some(born) = task.u64(&OFF_TASK_START_TIME) else {
        lose(SchedLoss::UnreadableTask);
        return;
    };
    let cgroup = id_of_task(task);
    remember(task, born, SchedTask { cgroup, slot: find_slot(task, cgroup), ..SchedTask::NEW });
}

#[inline(always)]
fn mark_moved(task: Address) {
    book::count_move();
    if let Some(known) = SCHED_TASKS.get_ptr_mut(task.0) {
        // SAFETY: an entry is freed with its task, which the kernel holds meanwhile.
        book::mark_moved(task, unsafe { &mut (*known).task });
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

#[inline(always)]
fn book(task: Address) {
    // One after the other: verifiers before 6.12 lose track of a comparison that the compiler carries over the next read.
    let Some(pid) = task.u32(&OFF_TASK_PID) else {
        lose(SchedLoss::UnreadableTask);
        return;
    };
    // The idle tasks.
    if pid == 0 {
        return;
    }
    let Some(born) = task.u64(&OFF_TASK_START_TIME) else {
        lose(SchedLoss::UnreadableTask);
        return;
    };
    match SCHED_TASKS.get_ptr_mut(task.0) {
        // SAFETY: an entry is freed with its task, which is running here.
        Some(known) if unsafe { (*known).born } == born => book::book(task, unsafe { &mut (*known).task }),
        _ => meet(task, born),
    }
}

/// The first booking of a task that nobody knows: it is older than the agent, or the hash was full at its birth. What finds
/// no room is not booked, or the next time would book it again.
#[inline(always)]
fn meet(task: Address, born: u64) {
    if born < started() {
        match book::totals(task) {
            Some(past) => remember(task, born, past),
            None => lose(SchedLoss::UnreadableTask),
        }
        return;
    }
    remember(task, born, SchedTask::NEW);
    if let Some(known) = SCHED_TASKS.get_ptr_mut(task.0) {
        // SAFETY: an entry is freed with its task, which is running here.
        book::book(task, unsafe { &mut (*known).task });
    }
}

#[inline(always)]
fn remember(task: Address, born: u64, so_far: SchedTask) {
    if SCHED_TASKS.insert(task.0, HashedTask { born, task: so_far }, 0).is_err() {
        lose(SchedLoss::TaskStorageFull);
    }
}

#[inline(always)]
fn started() -> u64 {
    u64::from(CFG_STARTED_SECONDS.load()) * 1_000_000_000 + u64::from(CFG_STARTED_NANOSECONDS.load())
}

sysprobe_ebpf::object!();
