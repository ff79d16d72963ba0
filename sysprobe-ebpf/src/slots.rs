//! From a cgroup to its slot. Every domain that charges cgroups has slots of its own, in two maps: those in
//! use by cgroup id (or another key of the domain), and a stack of free ones that the agent fills. The stack
//! has one lock for all CPUs, which it takes even if it is empty, so a third map says beforehand whether it
//! is.

use core::ffi::c_void;
use core::ptr;

use aya_ebpf::bindings::{BPF_F_MMAPABLE, BPF_NOEXIST};
use aya_ebpf::btf_maps::{Array, HashMap, Stack};
use aya_ebpf::helpers::generated::bpf_map_pop_elem;
use sysprobe_common::sched::threads::PF_KTHREAD;
use sysprobe_common::slot::room::{CHANGES, EXHAUSTED, WORDS};
use sysprobe_common::{cgroup, slot};

use crate::kernel::Object;
use crate::{counter, globals};

globals!(OFF_TASK_FLAGS);

const ENOENT: i32 = 2;

/// Sized by the agent. Preallocated, because it may be filled with a run queue locked.
pub type Known<Key = u64> = HashMap<Key, u32, 1>;
pub type Free = Stack<u32, 1>;
/// Words of `slot::room`.
pub type Room = Array<u64, { WORDS as usize }, { BPF_F_MMAPABLE as usize }>;

/// Why a cgroup has no slot of its own.
pub enum Missing {
    /// The charge goes to `slot::UNKNOWN`.
    UnreadableCgroup,
    /// The charge goes to `slot::NONE_FREE`, or to `slot::UNKNOWN` if the stack's lock could not be taken.
    NoFreeSlot,
}

/// The slot of a task's cgroup, a new one if it has none.
///
/// Arguments and results are plain numbers: the compiler would copy uninitialised parts of a `Result`, which
/// the verifier refuses.
#[inline(always)]
pub fn find(
    known: &Known,
    (free, room): (&Free, &Room),
    task: impl Object,
    id: u64,
    lose: impl Fn(Missing),
) -> u32 {
    if id == 0 {
        lose(Missing::UnreadableCgroup);
        return slot::UNKNOWN;
    }
    if id == cgroup::ROOT_ID && is_kernel_thread(task) {
        return slot::KERNEL;
    }
    find_key(known, (free, room), id, lose)
}

#[inline(always)]
#[must_use]
pub fn is_kernel_thread(task: impl Object) -> bool {
    task.u32(&OFF_TASK_FLAGS).unwrap_or(0) & PF_KTHREAD != 0
}

/// The slot of an owner (`cgroup::owner_of_task`), a new one if it has none.
#[inline(always)]
pub fn of_owner(known: &Known, (free, room): (&Free, &Room), owner: u64, lose: impl Fn(Missing)) -> u32 {
    match owner {
        0 => {
            lose(Missing::UnreadableCgroup);
            slot::UNKNOWN
        }
        cgroup::KERNEL => slot::KERNEL,
        id => find_key(known, (free, room), id, lose),
    }
}

/// The slot of a key, a new one if it has none.
#[inline(always)]
pub fn find_key<Key: Copy>(
    known: &Known<Key>,
    (free, room): (&Free, &Room),
    key: Key,
    lose: impl Fn(Missing),
) -> u32 {
    known_slot(known, key).unwrap_or_else(|| new_slot(known, (free, room), key, lose))
}

/// The slot of a key, if it has one.
#[inline(always)]
#[must_use]
pub fn known_slot<Key>(known: &Known<Key>, key: Key) -> Option<u32> {
    // SAFETY: the entry is a number in memory that the map keeps. It may be reused for another key only after
    // the agent has removed it. What outlives its cgroup may look it up just then, and count for the next.
    unsafe { known.get(key) }.copied()
}

/// The lower half of `slot::room::CHANGES`, which is enough to see whether it has changed.
#[inline(always)]
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "the lower half")]
pub fn changes(room: &Room) -> u32 {
    word(room, CHANGES) as u32
}

/// Counts a change after which a task may have another slot.
#[inline(always)]
pub fn count_change(room: &Room) {
    counter::count_shared(room, CHANGES);
}

/// Volatile, because the agent and other CPUs write it.
#[inline(always)]
fn word(room: &Room, number: u32) -> u64 {
    // SAFETY: the pointer is into the map's memory and stays valid while the program runs.
    room.get_ptr_mut(number).map_or(0, |word| unsafe { word.read_volatile() })
}

#[inline(always)]
fn new_slot<Key: Copy>(
    known: &Known<Key>,
    (free, room): (&Free, &Room),
    key: Key,
    lose: impl Fn(Missing),
) -> u32 {
    let changes = word(room, CHANGES);
    if word(room, EXHAUSTED) == changes + 1 {
        lose(Missing::NoFreeSlot);
        return slot::NONE_FREE;
    }
    let (slot, status) = pop(free);
    if status == 0 {
        insert(known, (free, room), key, slot, lose)
    } else if status == -ENOENT {
        // A slot that was given back since `changes` was read makes this note invalid.
        note_exhausted(room, changes + 1);
        // Another CPU may have got the last slot for this key.
        known_slot(known, key).unwrap_or_else(|| {
            lose(Missing::NoFreeSlot);
            slot::NONE_FREE
        })
    } else {
        // The stack's lock could not be taken. `UNKNOWN` is looked up again.
        lose(Missing::NoFreeSlot);
        slot::UNKNOWN
    }
}

/// Gives a key the slot that was popped for it, unless it already has one.
#[inline(always)]
fn insert<Key: Copy>(
    known: &Known<Key>,
    (free, room): (&Free, &Room),
    key: Key,
    slot: u32,
    lose: impl Fn(Missing),
) -> u32 {
    if known.insert(key, slot, u64::from(BPF_NOEXIST)).is_ok() {
        if word(room, EXHAUSTED) == word(room, CHANGES) + 1 {
            // Another CPU, looking up the same key, may have found the stack empty before it could see this
            // slot.
            count_change(room);
        }
        return slot;
    }
    if free.push(slot, 0).is_err() {
        lose(Missing::NoFreeSlot);
    }
    if let Some(slot) = known_slot(known, key) {
        // Another CPU was first with this key. Others may have found the stack empty meanwhile.
        count_change(room);
        return slot;
    }
    // The map is full: see `Slots::forget_gone` in the agent.
    lose(Missing::NoFreeSlot);
    slot::NONE_FREE
}

/// A free slot if the status is 0. Plain numbers, as in `find`.
#[inline(always)]
fn pop(free: &Free) -> (u32, i32) {
    let mut slot = slot::UNKNOWN;
    let stack = ptr::from_ref(free).cast_mut().cast::<c_void>();
    // SAFETY: a map of plain numbers, and room for one.
    let status = unsafe { bpf_map_pop_elem(stack, ptr::from_mut(&mut slot).cast()) };
    (slot, narrow(status))
}

/// The verifier replaces the helper by the map's own function. Before 6.4 that returns an `int`, so the upper
/// half of a negative result is 0.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "errors fit into an `int`")]
const fn narrow(status: i64) -> i32 {
    status as i32
}

#[inline(always)]
fn note_exhausted(room: &Room, time: u64) {
    if let Some(word) = room.get_ptr_mut(EXHAUSTED) {
        // SAFETY: as in `word`.
        unsafe { word.write_volatile(time) };
    }
}
