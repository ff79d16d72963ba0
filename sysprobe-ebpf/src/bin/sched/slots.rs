//! The slots of this domain.

use aya_ebpf::macros::btf_map;
use sysprobe_common::sched::SchedLoss;
use sysprobe_common::slot;
use sysprobe_ebpf::kernel::Object;
use sysprobe_ebpf::slots::{self, Free, Known, Missing, Room};

use crate::losses::lose;

#[btf_map]
static SCHED_SLOTS: Known = Known::new();
#[btf_map]
static SCHED_FREE: Free = Free::new();
#[btf_map]
static SCHED_ROOM: Room = Room::new();

/// Looked up when a task is new, exiting or in another cgroup, and, if it has no slot of its own, after each
/// change. The agent adds the switches in `slot::NONE_FREE` to the losses.
#[inline(always)]
pub(crate) fn find_slot(task: impl Object, id: u64) -> u32 {
    slots::find(&SCHED_SLOTS, (&SCHED_FREE, &SCHED_ROOM), task, id, |missing| {
        lose(match missing {
            Missing::UnreadableCgroup => SchedLoss::UnreadableCgroup,
            Missing::NoFreeSlot => SchedLoss::NoFreeSlot,
        });
    })
}

/// See [`slots::changes`].
#[inline(always)]
pub(crate) fn changes() -> u32 {
    slots::changes(&SCHED_ROOM)
}

/// A task was moved to another cgroup.
#[inline(always)]
pub(crate) fn count_move() {
    slots::count_change(&SCHED_ROOM);
}

/// The slot of a cgroup that has one.
#[inline(always)]
pub(crate) fn slot_of(id: u64) -> u32 {
    slots::known_slot(&SCHED_SLOTS, id).unwrap_or(slot::UNKNOWN)
}
