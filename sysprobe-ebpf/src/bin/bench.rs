//! Alternatives to `sched`, which `cargo xtask bench` compares with it. The agent never loads them.
//!
//! `bench_empty_*` show the cost of any program. The first group counts per CPU and differs in the source of
//! a wait: timestamps in a hash by pid, timestamps in task storage, or the kernel's own totals
//! (`bench_info`). The second group uses the totals and differs in the map with a cgroup's numbers. All find
//! buckets alike and keep the same numbers.
#![no_std]
#![no_main]
#![expect(clippy::inline_always, reason = "a BPF-to-BPF call costs more than these bodies")]
#![expect(clippy::needless_pass_by_value, reason = "the macros call programs with an owned context")]
#![expect(clippy::cast_possible_truncation, reason = "totals count modulo 2^32, and slots are 32 bits wide")]

#[path = "bench/stamps.rs"]
mod stamps;

use core::ffi::c_void;

use aya_ebpf::Global;
use aya_ebpf::bindings::{BPF_F_MMAPABLE, BPF_NOEXIST};
use aya_ebpf::btf_maps::{Array, HashMap, PerCpuArray, PerCpuHashMap};
use aya_ebpf::helpers::bpf_get_smp_processor_id;
use aya_ebpf::macros::{btf_map, btf_tracepoint};
use aya_ebpf::programs::BtfTracePointContext;
use sysprobe_common::hist;
use sysprobe_common::sched::{SchedStats, SchedTask};
use sysprobe_ebpf::atomic;
use sysprobe_ebpf::kernel::{Typed, read_u64};
use sysprobe_ebpf::storage::TaskStorage;

macro_rules! globals {
    ($($name:ident),+ $(,)?) => {
        $(#[unsafe(no_mangle)]
        static $name: Global<u32> = Global::new(0);)+
    };
}

globals!(
    OFF_TASK_CGROUPS,
    OFF_TASK_NIVCSW,
    OFF_TASK_NVCSW,
    OFF_TASK_ON_CPU_TIME,
    OFF_TASK_PID,
    OFF_TASK_RUN_DELAY,
    OFF_TASK_RUN_COUNT,
    OFF_CSS_SET_LINK,
    OFF_CSS_CGROUP,
    OFF_CGROUP_KN,
    OFF_KN_ID,
    CFG_VIA_CONTROLLER,
    CFG_SHARD_BITS,
);

/// A task's last totals, and its cgroup as an id or a slot.
#[repr(C)]
struct Seen {
    totals: SchedTask,
    cgroup: u64,
}

#[btf_map]
static BENCH_CPU: Array<SchedStats, 1, { BPF_F_MMAPABLE as usize }> = Array::new();
#[btf_map]
static BENCH_HASH: HashMap<u64, SchedStats, 1> = HashMap::new();
#[btf_map]
static BENCH_PCPU_HASH: PerCpuHashMap<u64, SchedStats, 1> = PerCpuHashMap::new();
#[btf_map]
static BENCH_PCPU: PerCpuArray<SchedStats, 1> = PerCpuArray::new();
#[btf_map]
static BENCH_MMAP: Array<SchedStats, 1, { BPF_F_MMAPABLE as usize }> = Array::new();
#[btf_map]
static BENCH_SLOTS: HashMap<u64, u32, 1> = HashMap::new();
/// The last slot that was assigned. Two CPUs may assign the same one, which does not change the cost.
#[btf_map]
static BENCH_LAST: Array<u32, 1> = Array::new();
/// A new entry's value, too large for the stack.
#[btf_map]
static BENCH_ZERO: Array<SchedStats, 1> = Array::new();

#[unsafe(link_section = ".maps")]
#[unsafe(export_name = "BENCH_TASKS")]
static BENCH_TASKS: TaskStorage<Seen> = TaskStorage::new();

#[btf_tracepoint(function = "sched_switch")]
fn bench_empty_sw(_ctx: BtfTracePointContext) -> i32 {
    0
}

#[btf_tracepoint(function = "sched_wakeup")]
fn bench_empty_wk(_ctx: BtfTracePointContext) -> i32 {
    0
}

/// Without cgroups.
#[btf_tracepoint(function = "sched_switch")]
fn bench_info(ctx: BtfTracePointContext) -> i32 {
    book::<false>(argument(&ctx, 1), |_, _| this_cpu());
    0
}

#[btf_tracepoint(function = "sched_switch")]
fn bench_hash(ctx: BtfTracePointContext) -> i32 {
    book::<true>(argument(&ctx, 1), |seen, css_set| hash_element(cached(seen, css_set, cgroup_id)));
    0
}

/// As `bench_hash`, but the cgroup is looked up at every switch.
#[btf_tracepoint(function = "sched_switch")]
fn bench_walk(ctx: BtfTracePointContext) -> i32 {
    book::<true>(argument(&ctx, 1), |_, css_set| hash_element(cgroup_id(css_set)));
    0
}

#[btf_tracepoint(function = "sched_switch")]
fn bench_pcpu_hash(ctx: BtfTracePointContext) -> i32 {
    book::<false>(argument(&ctx, 1), |seen, css_set| {
        let id = cached(seen, css_set, cgroup_id);
        let known = BENCH_PCPU_HASH.get_ptr_mut(id);
        if known.is_none() {
            BENCH_PCPU_HASH.insert(id, BENCH_ZERO.get(0)?, u64::from(BPF_NOEXIST)).ok()?;
        }
        known
    });
    0
}

#[btf_tracepoint(function = "sched_switch")]
fn bench_pcpu(ctx: BtfTracePointContext) -> i32 {
    book::<false>(argument(&ctx, 1), |seen, css_set| {
        BENCH_PCPU.get_ptr_mut(cached(seen, css_set, slot_of) as u32)
    });
    0
}

#[btf_tracepoint(function = "sched_switch")]
fn bench_mmap(ctx: BtfTracePointContext) -> i32 {
    book::<false>(argument(&ctx, 1), |seen, css_set| {
        let slot = cached(seen, css_set, slot_of) as u32;
        BENCH_MMAP.get_ptr_mut((slot << CFG_SHARD_BITS.load()) + cpu())
    });
    0
}

/// Records every task, with its totals as the baseline.
#[unsafe(link_section = "iter/task")]
#[unsafe(no_mangle)]
extern "C" fn bench_seed(ctx: *mut c_void) -> i32 {
    // SAFETY: the kernel passes a `bpf_iter__task`, whose second member is the task.
    let task = unsafe { *ctx.cast::<*const u8>().add(1) };
    if task.is_null() {
        return 0;
    }
    // SAFETY: not null, so it is a typed task.
    let task = unsafe { Typed::new(task) };
    let mut seen = Seen { totals: totals(task), cgroup: 0 };
    BENCH_TASKS.get_or_insert(task, &mut seen);
    0
}

#[inline(always)]
fn argument(ctx: &BtfTracePointContext, number: usize) -> Typed {
    // SAFETY: the callers name arguments that are tasks.
    unsafe { Typed::new(ctx.arg(number)) }
}

#[inline(always)]
fn totals(task: Typed) -> SchedTask {
    SchedTask {
        run_delay: task.load_u64(&OFF_TASK_RUN_DELAY),
        on_cpu: task.load_u64(&OFF_TASK_ON_CPU_TIME),
        // The address of the `css_set` instead of the id. These programs detect a move by it, which is cheap,
        // but wrong once the memory is reused. The product does not rely on it alone.
        cgroup: task.load_u64(&OFF_TASK_CGROUPS),
        arrivals: task.load_u64(&OFF_TASK_RUN_COUNT) as u32,
        voluntary: task.load_u64(&OFF_TASK_NVCSW) as u32,
        involuntary: task.load_u64(&OFF_TASK_NIVCSW) as u32,
        ..SchedTask::NEW
    }
}

#[inline(always)]
fn book<const SHARED: bool>(task: Typed, place: impl FnOnce(&mut Seen, u64) -> Option<*mut SchedStats>) {
    let Some(seen) = BENCH_TASKS.get(task) else { return };
    // SAFETY: task storage stays valid while the task does, and only the task's own CPU accounts for it.
    let seen = unsafe { &mut *seen };
    let now = totals(task);
    if let Some(stats) = place(seen, now.cgroup) {
        // SAFETY: the pointer is into the map's memory and stays valid while the program runs.
        add::<SHARED>(unsafe { &mut *stats }, &seen.totals, &now);
    }
    seen.totals = now;
}

#[inline(always)]
fn add<const SHARED: bool>(stats: &mut SchedStats, last: &SchedTask, now: &SchedTask) {
    let wait = now.run_delay.wrapping_sub(last.run_delay);
    add_u64::<SHARED>(&mut stats.wait_ns, wait);
    add_u64::<SHARED>(&mut stats.on_cpu_ns, now.on_cpu.wrapping_sub(last.on_cpu));
    if now.voluntary != last.voluntary {
        add_u32::<SHARED>(&mut stats.voluntary, now.voluntary.wrapping_sub(last.voluntary));
    }
    if now.involuntary != last.involuntary {
        add_u32::<SHARED>(&mut stats.involuntary, now.involuntary.wrapping_sub(last.involuntary));
    }
    if now.arrivals != last.arrivals
        && let Some(bucket) = stats.wait.get_mut(hist::bucket_of(wait))
    {
        add_u32::<SHARED>(bucket, 1);
    }
}

#[inline(always)]
fn add_u64<const SHARED: bool>(counter: &mut u64, value: u64) {
    if SHARED { atomic::add_u64(counter, value) } else { *counter += value }
}

#[inline(always)]
fn add_u32<const SHARED: bool>(counter: &mut u32, value: u32) {
    if SHARED { atomic::add_u32(counter, value) } else { *counter = counter.wrapping_add(value) }
}

#[inline(always)]
fn cpu() -> u32 {
    // SAFETY: the helper only returns a number.
    unsafe { bpf_get_smp_processor_id() }
}

#[inline(always)]
fn this_cpu() -> Option<*mut SchedStats> {
    BENCH_CPU.get_ptr_mut(cpu())
}

/// The id or slot of the task's cgroup, looked up once, and again after the task has moved.
#[inline(always)]
fn cached(seen: &mut Seen, css_set: u64, find: impl FnOnce(u64) -> u64) -> u64 {
    if seen.cgroup == 0 || css_set != seen.totals.cgroup {
        seen.cgroup = find(css_set);
    }
    seen.cgroup
}

/// The cgroup's id, 0 if it cannot be read.
#[inline(always)]
fn cgroup_id(css_set: u64) -> u64 {
    let link = read_u64(css_set, &OFF_CSS_SET_LINK).unwrap_or(0);
    let cgroup =
        if CFG_VIA_CONTROLLER.load() == 0 { link } else { read_u64(link, &OFF_CSS_CGROUP).unwrap_or(0) };
    let node = read_u64(cgroup, &OFF_CGROUP_KN).unwrap_or(0);
    read_u64(node, &OFF_KN_ID).unwrap_or(0)
}

#[inline(always)]
fn hash_element(id: u64) -> Option<*mut SchedStats> {
    let known = BENCH_HASH.get_ptr_mut(id);
    if known.is_none() {
        BENCH_HASH.insert(id, BENCH_ZERO.get(0)?, u64::from(BPF_NOEXIST)).ok()?;
    }
    known
}

#[inline(always)]
fn slot_of(css_set: u64) -> u64 {
    let id = cgroup_id(css_set);
    if let Some(slot) = BENCH_SLOTS.get_ptr(id) {
        // SAFETY: entries are never removed.
        return u64::from(unsafe { *slot });
    }
    let Some(last) = BENCH_LAST.get_ptr_mut(0) else { return 0 };
    // SAFETY: the pointer is into the map's memory and stays valid while the program runs.
    let slot = unsafe { *last } + 1;
    // SAFETY: as above.
    unsafe { *last = slot };
    if BENCH_SLOTS.insert(id, slot, u64::from(BPF_NOEXIST)).is_ok() { u64::from(slot) } else { 0 }
}

sysprobe_ebpf::object!();
