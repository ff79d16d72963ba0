//! Waits by timestamps, taken at the wakeup (or when a runnable task is preempted) and subtracted at the
//! switch. The timestamps are in a hash by pid or in task storage. Waits are counted per CPU.

use aya_ebpf::btf_maps::{HashMap, PerCpuArray};
use aya_ebpf::macros::{btf_map, btf_tracepoint};
use aya_ebpf::programs::BtfTracePointContext;
use sysprobe_common::hist;
use sysprobe_ebpf::clock;
use sysprobe_ebpf::storage::TaskStorage;

use super::{OFF_TASK_PID, Typed, argument, this_cpu};

/// When this CPU began to run its current task.
#[btf_map]
static BENCH_SINCE: PerCpuArray<u64, 1> = PerCpuArray::new();
/// When a task began to wait, by pid.
#[btf_map]
static BENCH_STARTS: HashMap<u32, u64, 1> = HashMap::new();

#[unsafe(link_section = ".maps")]
#[unsafe(export_name = "BENCH_STAMPS")]
static BENCH_STAMPS: TaskStorage<u64> = TaskStorage::new();

#[btf_tracepoint(function = "sched_wakeup")]
fn bench_hash_wk(ctx: BtfTracePointContext) -> i32 {
    stamp_by_pid(argument(&ctx, 0));
    0
}

#[btf_tracepoint(function = "sched_wakeup_new")]
fn bench_hash_new(ctx: BtfTracePointContext) -> i32 {
    stamp_by_pid(argument(&ctx, 0));
    0
}

#[btf_tracepoint(function = "sched_switch")]
fn bench_hash_sw(ctx: BtfTracePointContext) -> i32 {
    let preempted = is_preempted(&ctx);
    if preempted {
        stamp_by_pid(argument(&ctx, 1));
    }
    let pid = argument(&ctx, 2).load_u32(&OFF_TASK_PID);
    let start = BENCH_STARTS.get_ptr(pid).map_or(0, |start| {
        // SAFETY: the element is this task's, and only this CPU runs it.
        unsafe { *start }
    });
    if start != 0 && BENCH_STARTS.remove(pid).is_ok() {
        switched(start, preempted);
    }
    0
}

#[btf_tracepoint(function = "sched_wakeup")]
fn bench_tls_wk(ctx: BtfTracePointContext) -> i32 {
    stamp_in_task(argument(&ctx, 0));
    0
}

#[btf_tracepoint(function = "sched_wakeup_new")]
fn bench_tls_new(ctx: BtfTracePointContext) -> i32 {
    stamp_in_task(argument(&ctx, 0));
    0
}

#[btf_tracepoint(function = "sched_switch")]
fn bench_tls_sw(ctx: BtfTracePointContext) -> i32 {
    let preempted = is_preempted(&ctx);
    if preempted {
        stamp_in_task(argument(&ctx, 1));
    }
    if let Some(start) = BENCH_STAMPS.get(argument(&ctx, 2)) {
        // SAFETY: task storage stays valid while the task does.
        let start = unsafe { &mut *start };
        if *start != 0 {
            switched(*start, preempted);
            *start = 0;
        }
    }
    0
}

/// `prev_state`, the fourth argument since 5.18: 0 is runnable.
#[inline(always)]
fn is_preempted(ctx: &BtfTracePointContext) -> bool {
    ctx.arg::<u32>(3) == 0
}

/// Returns whether there was room. The idle task never waits.
#[inline(always)]
fn stamp_by_pid(task: Typed) -> bool {
    let pid = task.load_u32(&OFF_TASK_PID);
    pid != 0 && BENCH_STARTS.insert(pid, clock::now(), 0).is_ok()
}

#[inline(always)]
fn stamp_in_task(task: Typed) {
    if let Some(start) = BENCH_STAMPS.get_or_insert(task, &mut 0) {
        // SAFETY: task storage stays valid while the task does.
        unsafe { *start = clock::now() };
    }
}

/// Counts one wait, and the slice that ends.
#[inline(always)]
fn switched(start: u64, preempted: bool) {
    let now = clock::now();
    let (Some(since), Some(stats)) = (BENCH_SINCE.get_ptr_mut(0), this_cpu()) else { return };
    // SAFETY: both pointers are into this CPU's part of their maps.
    let (since, stats) = unsafe { (&mut *since, &mut *stats) };
    let wait = now.wrapping_sub(start);
    stats.wait_ns += wait;
    stats.on_cpu_ns += now.wrapping_sub(*since);
    *since = now;
    let switches = if preempted { &mut stats.involuntary } else { &mut stats.voluntary };
    *switches = switches.wrapping_add(1);
    if let Some(bucket) = stats.wait.get_mut(hist::bucket_of(wait)) {
        *bucket = bucket.wrapping_add(1);
    }
}
