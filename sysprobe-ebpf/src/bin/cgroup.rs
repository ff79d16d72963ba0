//! Sends events for created, removed and renamed cgroups of the key hierarchy.
//!
//! Every hook gets the directory's `kernfs_node`, which has the id, the name and the parent. It also leads to
//! the root of the file system, which is compared with the root of the current task's cgroup. This excludes
//! the other hierarchies, and sysfs, whose directories pass through the same functions.
#![no_std]
#![no_main]
#![expect(clippy::inline_always, reason = "a BPF-to-BPF call costs more than these bodies")]
#![expect(clippy::needless_pass_by_value, reason = "the macros call programs with an owned context")]

use aya_ebpf::Global;
use aya_ebpf::btf_maps::RingBuf;
use aya_ebpf::helpers::generated::bpf_probe_read_kernel_str;
use aya_ebpf::macros::{btf_map, btf_tracepoint, fentry, kprobe, raw_tracepoint};
use aya_ebpf::programs::{BtfTracePointContext, FEntryContext, ProbeContext, RawTracePointContext};
use sysprobe_common::cgroup::{
    BORN, CgroupCount, CgroupEvent, DIED, KILLS_UNKNOWN, NAME_SIZE, RENAMED, RING_BYTES,
};
use sysprobe_ebpf::cgroup::{OFF_KN_ID, node_of, node_of_task};
use sysprobe_ebpf::counter::{Lanes, count};
use sysprobe_ebpf::globals;
use sysprobe_ebpf::kernel::{ABSENT, Address, Object};

globals!(
    OFF_KN_FLAGS,
    OFF_KN_NAME,
    OFF_KN_PARENT,
    /// `kernfs_node.dir.root`, the same for all directories of one file system.
    OFF_KN_ROOT,
    /// `kernfs_node.priv`: the cgroup.
    OFF_KN_CGROUP,
    /// `cgroup.subsys`: the cgroup's state in each controller, by the controller's number.
    OFF_CGROUP_STATES,
    VAL_MEMORY_CONTROLLER,
    /// Where that state lies in the memory controller's `mem_cgroup`.
    OFF_MEMCG_STATE,
    /// `mem_cgroup.memory_events`: counters, by the number of the event.
    OFF_MEMCG_EVENTS,
    VAL_OOM_KILL,
);

#[btf_map]
static CGROUP_EVENTS: RingBuf<CgroupEvent, { RING_BYTES as usize }> = RingBuf::new();
#[btf_map]
static CGROUP_COUNTS: Lanes = Lanes::new();

/// proto: v5.10- `(struct cgroup *cgrp, const char *path)`
#[btf_tracepoint(function = "cgroup_mkdir")]
fn cgroup_born_tp(ctx: BtfTracePointContext) -> i32 {
    tell(node_of(Address(ctx.arg(0))), BORN)
}

/// proto: v5.10- `(struct cgroup *cgrp, const char *path)`
#[btf_tracepoint(function = "cgroup_rmdir")]
fn cgroup_died_tp(ctx: BtfTracePointContext) -> i32 {
    tell(node_of(Address(ctx.arg(0))), DIED)
}

/// proto: v5.10- `(struct cgroup *cgrp, const char *path)`
#[btf_tracepoint(function = "cgroup_rename")]
fn cgroup_name_tp(ctx: BtfTracePointContext) -> i32 {
    tell(node_of(Address(ctx.arg(0))), RENAMED)
}

/// proto: v5.10- `void kernfs_activate(struct kernfs_node *kn)`
///
/// The last step of creating a cgroup. It also runs for a new hierarchy's root, which has no parent, and for
/// a cgroup whose `cgroup.subtree_control` is written, which is already active.
#[fentry(function = "kernfs_activate")]
fn cgroup_born_fe(ctx: FEntryContext) -> i32 {
    activated(Some(Address(ctx.arg(0))))
}

/// proto: v5.10- `void kernfs_remove(struct kernfs_node *kn)`
#[fentry(function = "kernfs_remove")]
fn cgroup_died_fe(ctx: FEntryContext) -> i32 {
    tell(Some(Address(ctx.arg(0))), DIED)
}

#[kprobe(function = "kernfs_activate")]
fn cgroup_born_kp(ctx: ProbeContext) -> u32 {
    activated(ctx.arg(0).map(Address)).cast_unsigned()
}

#[kprobe(function = "kernfs_remove")]
fn cgroup_died_kp(ctx: ProbeContext) -> u32 {
    tell(ctx.arg(0).map(Address), DIED).cast_unsigned()
}

#[raw_tracepoint(tracepoint = "cgroup_mkdir")]
fn cgroup_born_rt(ctx: RawTracePointContext) -> i32 {
    tell(node_of(Address(ctx.arg(0))), BORN)
}

#[raw_tracepoint(tracepoint = "cgroup_rmdir")]
fn cgroup_died_rt(ctx: RawTracePointContext) -> i32 {
    tell(node_of(Address(ctx.arg(0))), DIED)
}

#[raw_tracepoint(tracepoint = "cgroup_rename")]
fn cgroup_name_rt(ctx: RawTracePointContext) -> i32 {
    tell(node_of(Address(ctx.arg(0))), RENAMED)
}

/// `KERNFS_ACTIVATED` of include/linux/kernfs.h; the value has not changed since 3.17.
const KERNFS_ACTIVATED: u16 = 0x10;

#[inline(always)]
fn activated(node: Option<Address>) -> i32 {
    match node.and_then(|node| node.u16(&OFF_KN_FLAGS)) {
        Some(flags) if flags & KERNFS_ACTIVATED != 0 => 0,
        _ => tell(node, BORN),
    }
}

/// Sends one event. Returns 0, the program's result.
#[inline(always)]
fn tell(node: Option<Address>, kind: u32) -> i32 {
    if node.and_then(|node| try_tell(node, kind)).is_none() {
        count(&CGROUP_COUNTS, CgroupCount::Unreadable as u32);
    }
    0
}

/// `None` if something could not be read.
#[inline(always)]
fn try_tell(node: Address, kind: u32) -> Option<()> {
    let parent = node.follow(&OFF_KN_PARENT)?;
    // Roots have no parent. The parent's root is compared, because a file has none of its own.
    if parent.0 == 0 || parent.u64(&OFF_KN_ROOT)? != key_root()? {
        return Some(());
    }
    count(&CGROUP_COUNTS, kind - BORN);
    let Some(mut entry) = CGROUP_EVENTS.reserve(0) else {
        count(&CGROUP_COUNTS, CgroupCount::RingFull as u32);
        return Some(());
    };
    let event: *mut CgroupEvent = entry.as_mut_ptr();
    // SAFETY: the ring buffer's memory, of the event's size, until it is submitted; every member is written.
    let complete = unsafe { describe(&mut *event, node, parent, kind) };
    // An incomplete event is sent as well, because its kind makes the agent walk the hierarchy.
    entry.submit(0);
    complete
}

/// The root of the key hierarchy's file system.
#[inline(always)]
fn key_root() -> Option<u64> {
    let current = Address::current();
    node_of_task(current)?.u64(&OFF_KN_ROOT)
}

#[inline(always)]
fn describe(event: &mut CgroupEvent, node: Address, parent: Address, kind: u32) -> Option<()> {
    event.id = node.u64(&OFF_KN_ID).unwrap_or(0);
    event.parent = parent.u64(&OFF_KN_ID).unwrap_or(0);
    event.oom_kills = KILLS_UNKNOWN;
    event.kind = kind;
    event.length = 0;
    let name = node.u64(&OFF_KN_NAME)?;
    // SAFETY: the helper writes at most the size it is given.
    let length =
        unsafe { bpf_probe_read_kernel_str(event.name.as_mut_ptr().cast(), NAME_SIZE, name as *const _) };
    // The helper's length counts the terminator.
    event.length = u32::try_from(length.checked_sub(1)?).ok()?;
    if kind == DIED {
        event.oom_kills = oom_kills(node)?;
    }
    Some(())
}

/// What `memory.events` of a cgroup that is being removed would say; `KILLS_UNKNOWN` if the memory controller
/// is off or in another hierarchy. `None` if it cannot be read.
///
/// `cgroup_rmdir` and `kernfs_remove` run under `cgroup_mutex`, without which the kernel does not clear the
/// pointer to the state (`offline_css`, v5.10-).
#[inline(always)]
fn oom_kills(node: Address) -> Option<u64> {
    let is_absent = |setting: &Global<u32>| setting.load() == ABSENT;
    if is_absent(&OFF_KN_CGROUP)
        || is_absent(&OFF_CGROUP_STATES)
        || is_absent(&VAL_MEMORY_CONTROLLER)
        || is_absent(&OFF_MEMCG_STATE)
        || is_absent(&OFF_MEMCG_EVENTS)
        || is_absent(&VAL_OOM_KILL)
    {
        return Some(KILLS_UNKNOWN);
    }
    let states = Address(node.follow(&OFF_KN_CGROUP)?.0 + 8 * u64::from(VAL_MEMORY_CONTROLLER.load()));
    let state = states.follow(&OFF_CGROUP_STATES)?;
    if state.0 == 0 {
        return Some(KILLS_UNKNOWN);
    }
    let counters = state.0 - u64::from(OFF_MEMCG_STATE.load()) + 8 * u64::from(VAL_OOM_KILL.load());
    Address(counters).u64(&OFF_MEMCG_EVENTS)
}

sysprobe_ebpf::object!();
