//! Adds a finished call to its cgroup's slot.

use aya_ebpf::bindings::BPF_F_MMAPABLE;
use aya_ebpf::btf_maps::Array;
use aya_ebpf::macros::btf_map;
use sysprobe_common::vfs::{Operation, VfsLoss, VfsStats};
use sysprobe_ebpf::accumulate::{self, Done};
use sysprobe_ebpf::counter::{self, Lanes};
use sysprobe_ebpf::kernel::Object;
use sysprobe_ebpf::shard;
use sysprobe_ebpf::slots::{self, Free, Known, Missing, Room};

/// By slot. Sized by the agent.
#[btf_map]
static VFS_STATS: Array<VfsStats, 1, { BPF_F_MMAPABLE as usize }> = Array::new();
#[btf_map]
static VFS_SLOTS: Known = Known::new();
#[btf_map]
static VFS_FREE: Free = Free::new();
#[btf_map]
pub(crate) static VFS_ROOM: Room = Room::new();
#[btf_map]
static VFS_LOSSES: Lanes = Lanes::new();

/// The outcome of a call, and its duration in nanoseconds.
pub(crate) struct Outcome {
    /// Bits of [`Operation::bit`].
    pub(crate) operations: u32,
    /// The call's result: bytes or 0, or a negative error.
    pub(crate) result: i64,
    pub(crate) took: u64,
}

#[inline(always)]
pub(crate) fn find_slot(task: impl Object, id: u64) -> u32 {
    slots::find(&VFS_SLOTS, (&VFS_FREE, &VFS_ROOM), task, id, missing)
}

#[inline(always)]
pub(crate) fn slot_of(owner: u64) -> u32 {
    slots::of_owner(&VFS_SLOTS, (&VFS_FREE, &VFS_ROOM), owner, missing)
}

#[inline(always)]
fn missing(why: Missing) {
    lose(match why {
        Missing::UnreadableCgroup => VfsLoss::UnreadableCgroup,
        Missing::NoFreeSlot => VfsLoss::NoFreeSlot,
    });
}

/// A transfer may be both a read and a write; every other call is one operation.
#[inline(always)]
pub(crate) fn book(slot: u32, outcome: &Outcome) {
    let writes = Operation::Write.bit();
    if outcome.operations & writes != 0 {
        add(slot, Operation::Write, outcome);
    }
    let rest = outcome.operations & !writes;
    if rest != 0 {
        add(slot, operation(rest), outcome);
    }
}

/// The operation whose bit is set. BPF has no instruction to find it.
#[inline(always)]
const fn operation(bit: u32) -> Operation {
    match bit {
        1 => Operation::Read,
        4 => Operation::Fsync,
        8 => Operation::Open,
        16 => Operation::Create,
        32 => Operation::Unlink,
        _ => Operation::Fault,
    }
}

#[inline(always)]
#[expect(clippy::cast_sign_loss, reason = "it is not below 0")]
fn add(slot: u32, operation: Operation, outcome: &Outcome) {
    let Some(stats) = VFS_STATS.get_ptr_mut(slot) else { return };
    // SAFETY: the pointer is into the map's memory and stays valid while the program runs.
    let Some(stats) = (unsafe { &mut *stats }).of_mut(operation, shard::of_this_cpu()) else { return };
    let failed = outcome.result < 0;
    let bytes = if failed { 0 } else { outcome.result as u64 };
    accumulate::operation(stats, &Done { bytes, failed, took: outcome.took });
}

#[cold]
#[inline(never)]
pub(crate) fn lose_several(loss: VfsLoss, several: u64) {
    counter::add(&VFS_LOSSES, loss as u32, several);
}

#[inline(always)]
pub(crate) fn lose(loss: VfsLoss) {
    lose_several(loss, 1);
}
