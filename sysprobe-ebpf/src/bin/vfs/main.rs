//! Storage as processes see it: the calls of a cgroup, their failures, bytes and durations. This object keeps
//! the call that a task is in in task storage.
//!
//! Calls are seen in one of two ways. VFS functions, hooked at entry and return, see everything that passes
//! through them. Where functions cannot be hooked, system calls stand in: `sys_enter` and `sys_exit` see
//! every call of every task, look up its number in a table, and return if it is not storage's.
//!
//! Only calls on storage are recorded at their beginning (`file.rs`, `name.rs`), so the end of any other call
//! finds nothing and costs one look-up. Of nested calls, the outermost counts.
#![no_std]
#![no_main]
#![expect(clippy::inline_always, reason = "a BPF-to-BPF call costs more than these bodies")]
#![expect(clippy::needless_pass_by_value, reason = "the macros call programs with an owned context")]

mod accounting;
mod asynchronous;
mod call;
mod file;
mod functions;
mod name;
mod syscalls;
mod table;

use aya_ebpf::macros::{btf_map, btf_tracepoint};
use aya_ebpf::programs::BtfTracePointContext;
use sysprobe_common::slot;
use sysprobe_common::vfs::{Call, TaskCall, VfsLoss};
use sysprobe_ebpf::cgroup::id_of_task;
use sysprobe_ebpf::kernel::{Address, Typed};
use sysprobe_ebpf::slots;
use sysprobe_ebpf::storage::{Budget, TaskStorage};

use accounting::{Outcome, VFS_ROOM, book, find_slot, lose};

/// A kernel object, as the modules that both objects share see it.
type Task = Typed;

#[unsafe(link_section = ".maps")]
#[unsafe(export_name = "VFS_TASKS")]
static VFS_TASKS: TaskStorage<TaskCall> = TaskStorage::new();
#[btf_map]
static VFS_BUDGET: Budget = Budget::new();

const NEW: TaskCall = TaskCall { call: Call::NONE, cgroup: 0, slot: slot::UNKNOWN, changes: 0 };

/// proto: v5.10- `(struct pt_regs *regs, long id)`
#[btf_tracepoint(function = "sys_enter")]
fn vfs_enter_tp(ctx: BtfTracePointContext) -> i32 {
    // SAFETY: the first argument is the registers.
    syscalls::enter(unsafe { Typed::new(ctx.arg(0)) }, ctx.arg(1));
    0
}

/// proto: v5.10- `(struct pt_regs *regs, long ret)`
#[btf_tracepoint(function = "sys_exit")]
fn vfs_exit_tp(ctx: BtfTracePointContext) -> i32 {
    // SAFETY: the first argument is the registers.
    syscalls::exit(unsafe { Typed::new(ctx.arg(0)) }, ctx.arg(1));
    0
}

/// proto: v6.3- `(struct io_kiocb *req)`
#[btf_tracepoint(function = "io_uring_submit_req")]
fn vfs_ring_b_tp(ctx: BtfTracePointContext) -> i32 {
    asynchronous::ring_begins(Address(ctx.arg(0)));
    0
}

/// proto: v6.0-v6.2 `(struct io_kiocb *req, bool force_nonblock)`
#[btf_tracepoint(function = "io_uring_submit_sqe")]
fn vfs_ring_o_tp(ctx: BtfTracePointContext) -> i32 {
    asynchronous::ring_begins(Address(ctx.arg(0)));
    0
}

/// proto: v5.19-v6.14 `(void *ctx, void *req, u64 user_data, int res, unsigned cflags, u64 extra1, u64
/// extra2)`
/// proto: v6.15- `(struct io_ring_ctx *ctx, void *req, struct io_uring_cqe *cqe)`
#[btf_tracepoint(function = "io_uring_complete")]
fn vfs_ring_e_tp(ctx: BtfTracePointContext) -> i32 {
    asynchronous::ring_ends(Address(ctx.arg(1)));
    0
}

#[inline(always)]
fn current() -> Typed {
    Typed::current()
}

#[inline(always)]
fn begin(task: Typed, new: Call) {
    let mut state = VFS_TASKS.get(task);
    if state.is_none() && new.operations != 0 {
        state = VFS_TASKS.make(task, &mut { NEW }, &VFS_BUDGET, || lose(VfsLoss::TaskStorageFull));
    }
    if let Some(state) = state {
        // SAFETY: task storage stays valid while the task does, and only the task itself uses it.
        call::begin(unsafe { &mut (*state).call }, new);
    }
}

/// Counts the call that ends. `conclude` returns its operations and its result. `false` if the task is in no
/// recorded call.
#[inline(always)]
fn end(task: Typed, frame: u64, conclude: impl FnOnce(&Call) -> (u32, i64)) -> bool {
    let Some(state) = VFS_TASKS.get(task) else { return false };
    // SAFETY: as in `begin`.
    let state = unsafe { &mut *state };
    if state.call.frame == 0 {
        return false;
    }
    let Some((call, took)) = call::end(&mut state.call, frame) else { return true };
    let (operations, result) = conclude(&call);
    if operations == 0 {
        return true;
    }
    let cgroup = id_of_task(task);
    // Slots below `FIRST_FREE` are looked up again: a kernel thread may become a process, and after a change,
    // a slot may be free.
    if cgroup != state.cgroup || state.slot < slot::FIRST_FREE {
        let changes = slots::changes(&VFS_ROOM);
        if cgroup == state.cgroup && state.slot == slot::NONE_FREE && changes == state.changes {
            lose(VfsLoss::NoFreeSlot);
        } else {
            (state.cgroup, state.slot, state.changes) = (cgroup, find_slot(task, cgroup), changes);
        }
    }
    book(state.slot, &Outcome { operations, result, took });
    true
}

sysprobe_ebpf::object!();
