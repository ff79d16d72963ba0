//! Storage, for attach modes without task storage: the same numbers as the `vfs` object. The call that a task
//! is in is kept in a hash by thread, and helpers read kernel memory, so the verifier needs no types.
#![no_std]
#![no_main]
#![expect(clippy::inline_always, reason = "a BPF-to-BPF call costs more than these bodies")]
#![expect(clippy::needless_pass_by_value, reason = "the macros call programs with an owned context")]

#[path = "../vfs/accounting.rs"]
mod accounting;
#[path = "../vfs/asynchronous.rs"]
mod asynchronous;
#[path = "../vfs/call.rs"]
mod call;
#[path = "../vfs/file.rs"]
mod file;
mod functions;
#[path = "../vfs/name.rs"]
mod name;
#[path = "../vfs/syscalls.rs"]
mod syscalls;
#[path = "../vfs/table.rs"]
mod table;

use aya_ebpf::btf_maps::HashMap;
use aya_ebpf::helpers::bpf_get_current_pid_tgid;
use aya_ebpf::macros::{btf_map, kprobe, raw_tracepoint};
use aya_ebpf::programs::{ProbeContext, RawTracePointContext};
use sysprobe_common::vfs::{Call, VfsLoss};
use sysprobe_ebpf::cgroup::id_of_task;
use sysprobe_ebpf::kernel::Address;

use accounting::{Outcome, book, find_slot, lose};

/// See the other object.
type Task = Address;

/// Calls in progress, by process and thread id. Sized by the agent.
#[btf_map]
static VFS_CALLS: HashMap<u64, Call, 1> = HashMap::new();

#[raw_tracepoint(tracepoint = "sys_enter")]
fn vfs_enter_rt(ctx: RawTracePointContext) -> i32 {
    syscalls::enter(Address(ctx.arg(0)), ctx.arg(1));
    0
}

#[raw_tracepoint(tracepoint = "sys_exit")]
fn vfs_exit_rt(ctx: RawTracePointContext) -> i32 {
    syscalls::exit(Address(ctx.arg(0)), ctx.arg(1));
    0
}

/// proto: v6.3- `(struct io_kiocb *req)`
#[raw_tracepoint(tracepoint = "io_uring_submit_req")]
fn vfs_ring_b_rt(ctx: RawTracePointContext) -> i32 {
    asynchronous::ring_begins(Address(ctx.arg(0)));
    0
}

/// proto: v6.0-v6.2 `(struct io_kiocb *req, bool force_nonblock)`
#[raw_tracepoint(tracepoint = "io_uring_submit_sqe")]
fn vfs_ring_o_rt(ctx: RawTracePointContext) -> i32 {
    asynchronous::ring_begins(Address(ctx.arg(0)));
    0
}

/// See the other object.
#[raw_tracepoint(tracepoint = "io_uring_complete")]
fn vfs_ring_e_rt(ctx: RawTracePointContext) -> i32 {
    asynchronous::ring_ends(Address(ctx.arg(1)));
    0
}

/// Removes the entry of a thread that exits.
#[raw_tracepoint(tracepoint = "sched_process_exit")]
fn vfs_gone_rt(_ctx: RawTracePointContext) -> i32 {
    remove(bpf_get_current_pid_tgid());
    0
}

/// proto: v5.10- `void do_exit(long code)`
#[kprobe]
fn vfs_gone_kp(_ctx: ProbeContext) -> u32 {
    remove(bpf_get_current_pid_tgid());
    0
}

#[inline(always)]
fn current() -> Address {
    Address::current()
}

#[inline(always)]
fn begin(_task: Address, new: Call) {
    let thread = bpf_get_current_pid_tgid();
    if let Some(current) = VFS_CALLS.get_ptr_mut(thread) {
        // SAFETY: an entry is removed by its own thread only.
        call::begin(unsafe { &mut *current }, new);
    } else if new.operations != 0 {
        let mut call = Call::NONE;
        call::begin(&mut call, new);
        if VFS_CALLS.insert(thread, call, 0).is_err() {
            lose(VfsLoss::TaskStorageFull);
        }
    }
}

/// See `end` of the other object.
#[inline(always)]
fn end(task: Address, frame: u64, conclude: impl FnOnce(&Call) -> (u32, i64)) -> bool {
    let thread = bpf_get_current_pid_tgid();
    let Some(current) = VFS_CALLS.get_ptr_mut(thread) else { return false };
    // SAFETY: an entry is removed by its own thread only.
    let Some((call, took)) = call::end(unsafe { &mut *current }, frame) else { return true };
    remove(thread);
    let (operations, result) = conclude(&call);
    if operations == 0 {
        return true;
    }
    let slot = find_slot(task, id_of_task(task));
    book(slot, &Outcome { operations, result, took });
    true
}

#[inline(always)]
#[expect(clippy::let_underscore_must_use, reason = "most threads that end are in no call")]
fn remove(thread: u64) {
    let _ = VFS_CALLS.remove(thread);
}

sysprobe_ebpf::object!();
