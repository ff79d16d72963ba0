//! Programs that tasks start, counted for the cgroup of the task.
#![no_std]
#![no_main]
#![expect(clippy::inline_always, reason = "a BPF-to-BPF call costs more than these bodies")]

use aya_ebpf::bindings::BPF_F_MMAPABLE;
use aya_ebpf::btf_maps::Array;
use aya_ebpf::helpers::generated::bpf_get_current_task;
use aya_ebpf::macros::{btf_map, btf_tracepoint, raw_tracepoint};
use aya_ebpf::programs::{BtfTracePointContext, RawTracePointContext};
use sysprobe_common::exec::{ExecLoss, ExecStats};
use sysprobe_ebpf::atomic;
use sysprobe_ebpf::cgroup::id_of_task;
use sysprobe_ebpf::counter::{self, Lanes};
use sysprobe_ebpf::kernel::Address;
use sysprobe_ebpf::slots::{self, Free, Known, Missing, Room};

/// By slot. Sized by the agent.
#[btf_map]
static EXEC_STATS: Array<ExecStats, 1, { BPF_F_MMAPABLE as usize }> = Array::new();
#[btf_map]
static EXEC_SLOTS: Known = Known::new();
#[btf_map]
static EXEC_FREE: Free = Free::new();
#[btf_map]
static EXEC_ROOM: Room = Room::new();
#[btf_map]
static EXEC_LOSSES: Lanes = Lanes::new();

/// proto: v5.10- `(struct task_struct *p, pid_t old_pid, struct linux_binprm *bprm)`
#[btf_tracepoint(function = "sched_process_exec")]
fn exec_tp(_ctx: BtfTracePointContext) -> i32 {
    count();
    0
}

#[raw_tracepoint(tracepoint = "sched_process_exec")]
fn exec_rt(_ctx: RawTracePointContext) -> i32 {
    count();
    0
}

#[inline(always)]
fn count() {
    // SAFETY: the helper only returns an address.
    let task = Address(unsafe { bpf_get_current_task() });
    let slot = slots::find(&EXEC_SLOTS, (&EXEC_FREE, &EXEC_ROOM), task, id_of_task(task), |missing| {
        let loss = match missing {
            Missing::UnreadableCgroup => ExecLoss::UnreadableCgroup,
            Missing::NoFreeSlot => ExecLoss::NoFreeSlot,
        };
        counter::count(&EXEC_LOSSES, loss as u32);
    });
    let Some(stats) = EXEC_STATS.get_ptr_mut(slot) else { return };
    // SAFETY: the pointer is into the map's memory and stays valid while the program runs.
    let stats = unsafe { &mut *stats };
    atomic::add_u64(&mut stats.execs, 1);
}

sysprobe_ebpf::object!();
