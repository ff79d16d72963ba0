//! Scheduler, for kernels and hooks without task storage: the same numbers as the `sched` object, with a hash by the
//! task's address instead, and with reads that the verifier need not understand.
//!
//! A task is made known the first time it is seen. One that is younger than the agent has all of its past counted, for
//! an older one the past is the baseline. The hash is preallocated: it is filled with a run queue locked.
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
use sysprobe_ebpf::kernel::{Address, Object};
use sysprobe_ebpf::settings;

use book::{CFG_AGENT_TGID, OFF_TASK_PID, OFF_TASK_TGID, lose};

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
    reason = "a task that never left a CPU since the start was never known"
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

/// The first booking of a task.
#[inline(always)]
fn meet(task: Address, born: u64) {
    let mut last = SchedTask::NEW;
    if born < started() {
        let Some(past) = book::totals(task) else {
            lose(SchedLoss::UnreadableTask);
            return;
        };
        last = past;
    } else {
        book::book(task, &mut last);
    }
    if SCHED_TASKS.insert(task.0, HashedTask { born, task: last }, 0).is_err() {
        lose(SchedLoss::TaskStorageFull);
    }
}

#[inline(always)]
fn started() -> u64 {
    u64::from(CFG_STARTED_SECONDS.load()) * 1_000_000_000 + u64::from(CFG_STARTED_NANOSECONDS.load())
}

sysprobe_ebpf::object!();
