//! Scheduler: who waited for a CPU, how long, and who ran.
//!
//! The kernel keeps exact totals in every task: `sched_info` (its wait on run queues, stamped with the run queue's own
//! clock), `se.sum_exec_runtime`, `nvcsw` and `nivcsw`. One program at `sched_switch` reads the totals of the task that
//! leaves the CPU and books what was added since it last looked, so there is no hook at wakeup and no clock read, and
//! the sums are the kernel's own. A wait is booked when the slice that ended it ends, or at the agent's next flush.
//!
//! The totals a task was last seen with are in its task storage. `sched_newtask` makes it at birth and `sched_seed` for
//! the tasks that were there before; `sched_switch` never allocates, because it runs with the run queue locked.
#![no_std]
#![no_main]
#![expect(clippy::inline_always, reason = "a BPF-to-BPF call costs more than these bodies")]
#![expect(clippy::needless_pass_by_value, reason = "the macros call programs with an owned context")]

use core::ffi::c_void;

use aya_ebpf::Global;
use aya_ebpf::bindings::{BPF_F_MMAPABLE, BPF_NOEXIST};
use aya_ebpf::btf_maps::{Array, HashMap, Stack};
use aya_ebpf::helpers::bpf_get_smp_processor_id;
use aya_ebpf::helpers::generated::bpf_get_current_task_btf;
use aya_ebpf::macros::{btf_map, btf_tracepoint, raw_tracepoint};
use aya_ebpf::programs::{BtfTracePointContext, RawTracePointContext};
use sysprobe_common::sched::{SchedLoss, SchedStats, SchedTask};
use sysprobe_common::{cgroup, hist, slot};
use sysprobe_ebpf::atomic;
use sysprobe_ebpf::counter::count;
use sysprobe_ebpf::kernel::Typed;
use sysprobe_ebpf::task_storage::TaskStorage;

macro_rules! offsets {
    ($($name:ident),+ $(,)?) => {
        $(#[unsafe(no_mangle)]
        static $name: Global<u32> = Global::new(0);)+
    };
}

offsets!(
    OFF_TASK_CGROUPS,
    OFF_TASK_FLAGS,
    OFF_TASK_NIVCSW,
    OFF_TASK_NVCSW,
    OFF_TASK_ON_CPU_TIME,
    OFF_TASK_PID,
    OFF_TASK_RUN_DELAY,
    OFF_TASK_RUN_COUNT,
    OFF_TASK_TGID,
    // From a `css_set` to the cgroup: `dfl_cgrp` on the default hierarchy; `subsys[cpu]` and its `cgroup` on v1.
    OFF_CSS_SET_LINK,
    OFF_CSS_CGROUP,
    OFF_CGROUP_KN,
    OFF_KN_ID,
);

/// 1 where the cgroup is reached through the cpu controller's state (v1), 0 on the default hierarchy.
#[unsafe(no_mangle)]
static CFG_VIA_CONTROLLER: Global<u32> = Global::new(0);
/// Shards per slot, as a power of two, and how many neighbouring CPUs share one, likewise.
#[unsafe(no_mangle)]
static CFG_SHARD_BITS: Global<u32> = Global::new(0);
#[unsafe(no_mangle)]
static CFG_CPU_SHIFT: Global<u32> = Global::new(0);
/// The agent itself, which a flush on its own CPU would interrupt half-way.
#[unsafe(no_mangle)]
static CFG_AGENT_TGID: Global<u32> = Global::new(0);

/// `PF_KTHREAD` of include/linux/sched.h; the value has not changed since 2.6.
const PF_KTHREAD: u32 = 0x0020_0000;

/// `slot << shard_bits | shard`. Sized by the agent.
#[btf_map]
static SCHED_STATS: Array<SchedStats, 1, { BPF_F_MMAPABLE as usize }> = Array::new();
/// Cgroup id to slot. Preallocated: it is filled with a run queue locked.
#[btf_map]
static SCHED_SLOTS: HashMap<u64, u32, 1> = HashMap::new();
#[btf_map]
static SCHED_FREE: Stack<u32, 1> = Stack::new();
#[btf_map]
static SCHED_LOSSES: Array<u64, { SchedLoss::ALL.len() }, { BPF_F_MMAPABLE as usize }> = Array::new();

#[unsafe(link_section = ".maps")]
#[unsafe(export_name = "SCHED_TASKS")]
static SCHED_TASKS: TaskStorage<SchedTask> = TaskStorage::new();

/// proto: v5.10-v5.17 `(bool preempt, struct task_struct *prev, struct task_struct *next)`
/// proto: v5.18- `(…, unsigned int prev_state)`
#[btf_tracepoint(function = "sched_switch")]
fn sched_switch(ctx: BtfTracePointContext) -> i32 {
    // SAFETY: the second argument is `prev`.
    book(unsafe { Typed::new(ctx.arg(1)) });
    0
}

/// Books what the task running on this CPU has gathered so far. The agent runs it on every CPU before it reads
/// (`BPF_PROG_TEST_RUN`), in an interrupt, so that a thread that never leaves its CPU does not look idle.
#[raw_tracepoint(tracepoint = "sched_switch")]
fn sched_flush(_ctx: RawTracePointContext) -> i32 {
    // SAFETY: the helper returns a typed pointer to the current task.
    let current = unsafe { Typed::new(bpf_get_current_task_btf().cast_const().cast()) };
    // On the agent's own CPU the run is an ordinary call that a switch can interrupt, which would book twice.
    if current.load_u32(&OFF_TASK_TGID) != CFG_AGENT_TGID.load() {
        book(current);
    }
    0
}

/// proto: v5.10- `(struct task_struct *task, unsigned long clone_flags)`
#[btf_tracepoint(function = "task_newtask")]
fn sched_newtask(ctx: BtfTracePointContext) -> i32 {
    // SAFETY: the first argument is the new task.
    let task = unsafe { Typed::new(ctx.arg(0)) };
    let mut nothing_yet =
        SchedTask { run_delay: 0, on_cpu: 0, cgroup: 0, arrivals: 0, voluntary: 0, involuntary: 0, slot: 0 };
    if SCHED_TASKS.get_or_insert(task, &mut nothing_yet).is_none() {
        lose(SchedLoss::TaskStorageFull);
    }
    0
}

/// The members of `bpf_iter__task` that are used.
#[repr(C)]
struct TaskIteration {
    meta: u64,
    task: *const u8,
}

/// Makes a task known that is older than the agent: its past is the baseline.
#[unsafe(link_section = "iter/task")]
#[unsafe(no_mangle)]
extern "C" fn sched_seed(ctx: *mut c_void) -> i32 {
    // SAFETY: the kernel passes a `bpf_iter__task`.
    let task = unsafe { (*ctx.cast::<TaskIteration>()).task };
    if task.is_null() {
        return 0;
    }
    // SAFETY: not null, so it is a typed task.
    let task = unsafe { Typed::new(task) };
    let mut past = totals(task);
    if SCHED_TASKS.get_or_insert(task, &mut past).is_none() {
        lose(SchedLoss::TaskStorageFull);
    }
    0
}

/// The task's totals as they are now, without a slot.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "their differences are taken modulo 2^32")]
fn totals(task: Typed) -> SchedTask {
    SchedTask {
        run_delay: task.load_u64(&OFF_TASK_RUN_DELAY),
        on_cpu: task.load_u64(&OFF_TASK_ON_CPU_TIME),
        cgroup: cgroup_id(task),
        arrivals: task.load_u64(&OFF_TASK_RUN_COUNT) as u32,
        voluntary: task.load_u64(&OFF_TASK_NVCSW) as u32,
        involuntary: task.load_u64(&OFF_TASK_NIVCSW) as u32,
        slot: slot::UNKNOWN,
    }
}

/// Adds what the task gathered since it was last booked to its cgroup.
#[inline(always)]
fn book(task: Typed) {
    // The idle tasks. Telling them here saves them the look-up, the dearest step.
    if task.load_u32(&OFF_TASK_PID) == 0 {
        return;
    }
    let Some(last) = SCHED_TASKS.get(task) else {
        lose(SchedLoss::UnknownTask);
        return;
    };
    // SAFETY: task storage stays valid while the task does, and only its own CPU books a task.
    let last = unsafe { &mut *last };
    let mut now = totals(task);
    now.slot = if now.cgroup == last.cgroup && last.slot != slot::UNKNOWN {
        last.slot
    } else {
        find_slot(task, now.cgroup)
    };
    let wait = now.run_delay.wrapping_sub(last.run_delay);
    let on_cpu = now.on_cpu.wrapping_sub(last.on_cpu);
    if (wait | on_cpu) >> 63 != 0 {
        lose(SchedLoss::BackwardsClock);
    } else if let Some(stats) = stats_of(now.slot) {
        add(stats, last, &now, wait, on_cpu);
    }
    *last = now;
}

/// This CPU's shard of a slot.
#[inline(always)]
fn stats_of(slot: u32) -> Option<*mut SchedStats> {
    // SAFETY: the helper only returns a number.
    let cpu = unsafe { bpf_get_smp_processor_id() };
    SCHED_STATS.get_ptr_mut((slot << CFG_SHARD_BITS.load()) + (cpu >> CFG_CPU_SHIFT.load()))
}

#[inline(always)]
fn add(stats: *mut SchedStats, last: &SchedTask, now: &SchedTask, wait: u64, on_cpu: u64) {
    // SAFETY: the pointer is into the map's memory and stays valid while the program runs.
    let stats = unsafe { &mut *stats };
    add_u64(&mut stats.wait_ns, wait);
    add_u64(&mut stats.on_cpu_ns, on_cpu);
    if now.voluntary != last.voluntary {
        add_u32(&mut stats.voluntary, now.voluntary.wrapping_sub(last.voluntary));
    }
    if now.involuntary != last.involuntary {
        add_u32(&mut stats.involuntary, now.involuntary.wrapping_sub(last.involuntary));
    }
    // A flush in the middle of a slice has booked its arrival already.
    if now.arrivals != last.arrivals
        && let Some(bucket) = stats.wait.get_mut(hist::bucket_of(wait))
    {
        add_u32(bucket, 1);
    }
}

/// A shard that belongs to one CPU needs no atomic: the hook runs with interrupts off.
#[inline(always)]
fn add_u64(counter: &mut u64, value: u64) {
    if CFG_CPU_SHIFT.load() == 0 {
        *counter += value;
    } else {
        atomic::add_u64(counter, value);
    }
}

#[inline(always)]
fn add_u32(counter: &mut u32, value: u32) {
    if CFG_CPU_SHIFT.load() == 0 {
        *counter = counter.wrapping_add(value);
    } else {
        atomic::add_u32(counter, value);
    }
}

/// The slot of the task's cgroup. Looked up once per task, and again when it moves to another cgroup.
#[inline(always)]
fn find_slot(task: Typed, id: u64) -> u32 {
    if id == 0 {
        lose(SchedLoss::UnreadableCgroup);
        return slot::UNKNOWN;
    }
    if id == cgroup::ROOT_ID && task.load_u32(&OFF_TASK_FLAGS) & PF_KTHREAD != 0 {
        return slot::KERNEL;
    }
    known_slot(id).unwrap_or_else(|| new_slot(id))
}

/// The id of the task's cgroup, 0 if it cannot be read. The addresses on the way are no substitute: a `css_set` that
/// was freed while the task slept comes back as another cgroup's.
#[inline(always)]
fn cgroup_id(task: Typed) -> u64 {
    let link = task.follow(&OFF_TASK_CGROUPS).follow(&OFF_CSS_SET_LINK);
    let cgroup = if CFG_VIA_CONTROLLER.load() == 0 { link } else { link.follow(&OFF_CSS_CGROUP) };
    cgroup.follow(&OFF_CGROUP_KN).load_u64(&OFF_KN_ID)
}

#[inline(always)]
fn known_slot(id: u64) -> Option<u32> {
    // SAFETY: an entry may be reused for another cgroup only after the agent has removed it, long after its last task.
    unsafe { SCHED_SLOTS.get(id) }.copied()
}

#[inline(always)]
fn new_slot(id: u64) -> u32 {
    let Ok(Some(slot)) = SCHED_FREE.pop() else {
        lose(SchedLoss::NoFreeSlot);
        return slot::UNKNOWN;
    };
    if SCHED_SLOTS.insert(id, slot, u64::from(BPF_NOEXIST)).is_ok() {
        return slot;
    }
    // Another CPU was first with this cgroup.
    if SCHED_FREE.push(slot, 0).is_err() {
        lose(SchedLoss::NoFreeSlot);
    }
    known_slot(id).unwrap_or(slot::UNKNOWN)
}

#[inline(always)]
fn lose(loss: SchedLoss) {
    count(&SCHED_LOSSES, loss as u32);
}

#[cfg(not(test))]
#[panic_handler]
fn panic(_info: &core::panic::PanicInfo) -> ! {
    loop {}
}

#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
