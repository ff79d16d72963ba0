//! Cgroups: births, deaths and renames in the hierarchy that is the key, as events with their paths.
//!
//! The kernel makes the path for its tracepoints and holds `cgroup_mutex` at every one of them, so events are in order
//! and one scratch buffer would do; a full ring buffer is counted, and the agent walks the hierarchy again.
#![no_std]
#![no_main]
#![expect(clippy::inline_always, reason = "a BPF-to-BPF call costs more than these bodies")]
#![expect(clippy::needless_pass_by_value, reason = "the macros call programs with an owned context")]

use aya_ebpf::Global;
use aya_ebpf::bindings::BPF_F_MMAPABLE;
use aya_ebpf::btf_maps::{Array, PerCpuArray, RingBuf};
use aya_ebpf::helpers::generated::{bpf_probe_read_kernel_str, bpf_ringbuf_output};
use aya_ebpf::macros::{btf_map, btf_tracepoint};
use aya_ebpf::programs::BtfTracePointContext;
use sysprobe_common::cgroup::{BORN, CgroupCount, CgroupEvent, DIED, PATH_MAX, RENAMED};
use sysprobe_ebpf::counter::count;
use sysprobe_ebpf::kernel::{read_u32, read_u64};

#[unsafe(no_mangle)]
static OFF_CGROUP_KN: Global<u32> = Global::new(0);
#[unsafe(no_mangle)]
static OFF_CGROUP_ROOT: Global<u32> = Global::new(0);
#[unsafe(no_mangle)]
static OFF_KN_ID: Global<u32> = Global::new(0);
#[unsafe(no_mangle)]
static OFF_ROOT_HIERARCHY: Global<u32> = Global::new(0);
/// `cgroup_root.hierarchy_id` of the hierarchy that is the key; 0 is the default hierarchy.
#[unsafe(no_mangle)]
static CFG_HIERARCHY: Global<u32> = Global::new(0);

/// An event with room for the longest path; only the used part is sent.
#[repr(C)]
struct Record {
    head: CgroupEvent,
    path: [u8; PATH_MAX as usize],
}

/// 512 KiB: about four thousand events of a usual length.
#[btf_map]
static CGROUP_EVENTS: RingBuf<u8, { 512 * 1024 }> = RingBuf::new();
#[btf_map]
static CGROUP_SCRATCH: PerCpuArray<Record, 1> = PerCpuArray::new();
#[btf_map]
static CGROUP_COUNTS: Array<u64, { CgroupCount::ALL.len() }, { BPF_F_MMAPABLE as usize }> = Array::new();

/// proto: v5.10- `(struct cgroup *cgrp, const char *path)`
#[btf_tracepoint(function = "cgroup_mkdir")]
fn cgroup_mkdir(ctx: BtfTracePointContext) -> i32 {
    tell(&ctx, BORN, CgroupCount::Born);
    0
}

/// proto: v5.10- `(struct cgroup *cgrp, const char *path)`
#[btf_tracepoint(function = "cgroup_rmdir")]
fn cgroup_rmdir(ctx: BtfTracePointContext) -> i32 {
    tell(&ctx, DIED, CgroupCount::Died);
    0
}

/// proto: v5.10- `(struct cgroup *cgrp, const char *path)`
#[btf_tracepoint(function = "cgroup_rename")]
fn cgroup_rename(ctx: BtfTracePointContext) -> i32 {
    tell(&ctx, RENAMED, CgroupCount::Renamed);
    0
}

#[inline(always)]
fn tell(ctx: &BtfTracePointContext, kind: u32, counter: CgroupCount) {
    let cgroup: *const u8 = ctx.arg(0);
    let path: *const u8 = ctx.arg(1);
    let Some(head) = describe(cgroup as u64, kind) else { return };
    if head.hierarchy != CFG_HIERARCHY.load() {
        return;
    }
    count(&CGROUP_COUNTS, counter as u32);
    if send(head, path).is_none() {
        count(&CGROUP_COUNTS, CgroupCount::RingFull as u32);
    }
}

#[inline(always)]
fn describe(cgroup: u64, kind: u32) -> Option<CgroupEvent> {
    let root = read_u64(cgroup, &OFF_CGROUP_ROOT)?;
    let hierarchy = read_u32(root, &OFF_ROOT_HIERARCHY)?;
    let node = read_u64(cgroup, &OFF_CGROUP_KN)?;
    let id = read_u64(node, &OFF_KN_ID)?;
    Some(CgroupEvent { id, kind, hierarchy })
}

#[inline(always)]
fn send(head: CgroupEvent, path: *const u8) -> Option<()> {
    let record = CGROUP_SCRATCH.get_ptr_mut(0)?;
    // SAFETY: the pointer is into the map's memory; `cgroup_mutex` keeps others from it.
    let record = unsafe { &mut *record };
    record.head = head;
    // SAFETY: the helper writes at most the size it is given.
    let length = unsafe { bpf_probe_read_kernel_str(record.path.as_mut_ptr().cast(), PATH_MAX, path.cast()) };
    if length < 0 {
        return None;
    }
    // The helper's length counts the terminator. The mask tells the verifier what the helper promises.
    let length = length.cast_unsigned().saturating_sub(1) & u64::from(PATH_MAX - 1);
    let size = size_of::<CgroupEvent>() as u64 + length;
    let map = core::ptr::from_ref(&CGROUP_EVENTS).cast_mut().cast();
    // SAFETY: `size` is at most that of the record.
    let sent = unsafe { bpf_ringbuf_output(map, core::ptr::from_mut(record).cast(), size, 0) };
    (sent == 0).then_some(())
}

#[cfg(not(test))]
#[panic_handler]
fn panic(_info: &core::panic::PanicInfo) -> ! {
    loop {}
}

#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
