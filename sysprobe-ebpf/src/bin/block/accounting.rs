//! Adds a finished request to the slot of its cgroup and device.

use aya_ebpf::bindings::BPF_F_MMAPABLE;
use aya_ebpf::btf_maps::Array;
use aya_ebpf::helpers::generated::bpf_probe_read_kernel;
use aya_ebpf::macros::btf_map;
use sysprobe_common::block::{BlockLoss, BlockStats, Key, Operation};
use sysprobe_common::slot;
use sysprobe_ebpf::accumulate::{self, Done};
use sysprobe_ebpf::counter::{self, Lanes};
use sysprobe_ebpf::kernel::Object;
use sysprobe_ebpf::slots::{self, Free, Known, Missing, Room};
use sysprobe_ebpf::{atomic, globals};

globals!(OFF_DISK_NAME);

/// By slot. Sized by the agent.
#[btf_map]
static BLOCK_STATS: Array<BlockStats, 1, { BPF_F_MMAPABLE as usize }> = Array::new();
#[btf_map]
static BLOCK_SLOTS: Known<Key> = Known::new();
#[btf_map]
static BLOCK_FREE: Free = Free::new();
#[btf_map]
static BLOCK_ROOM: Room = Room::new();
#[btf_map]
static BLOCK_LOSSES: Lanes = Lanes::new();

#[inline(always)]
pub(crate) fn book(key: Key, disk: impl Object, operation: Operation, done: &Done, queued: u64) {
    let slot = slots::find_key(&BLOCK_SLOTS, (&BLOCK_FREE, &BLOCK_ROOM), key, |missing| {
        lose(match missing {
            Missing::UnreadableCgroup => BlockLoss::UnreadableCgroup,
            Missing::NoFreeSlot => BlockLoss::NoFreeSlot,
        });
    });
    let Some(stats) = BLOCK_STATS.get_ptr_mut(slot) else { return };
    // SAFETY: the pointer is into the map's memory and stays valid while the program runs.
    let stats = unsafe { &mut *stats };
    if !slot::is_nameless(slot) {
        name(stats, disk);
    }
    if let Some(sum) = stats.queued_ns.get_mut(operation as usize) {
        atomic::add_u64(sum, queued);
    }
    if let Some(stats) = stats.operations.get_mut(operation as usize) {
        accumulate::operation(stats, done);
    }
}

/// Written each time, because the number may have been reused for another device.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "a name")]
fn name(stats: &mut BlockStats, disk: impl Object) {
    let from = (disk.address() + u64::from(OFF_DISK_NAME.load())) as *const u8;
    // SAFETY: the helper checks the address, and the room is the map's.
    unsafe {
        bpf_probe_read_kernel(stats.disk.as_mut_ptr().cast(), size_of_val(&stats.disk) as u32, from.cast());
    }
}

/// The time since `begun`, in nanoseconds.
#[inline(always)]
pub(crate) fn since(begun: u64, now: u64) -> u64 {
    now.checked_sub(begun).unwrap_or_else(|| {
        lose(BlockLoss::BackwardsClock);
        0
    })
}

#[cold]
#[inline(never)]
pub(crate) fn lose(loss: BlockLoss) {
    counter::count(&BLOCK_LOSSES, loss as u32);
}
