//! From a cgroup to its slot. Every domain that charges cgroups has slots of its own, in two maps: the known ones by cgroup
//! id (or whatever else the domain tells apart), and a stack of free ones that the agent fills.

use aya_ebpf::bindings::BPF_NOEXIST;
use aya_ebpf::btf_maps::{HashMap, Stack};
use sysprobe_common::{cgroup, slot};

use crate::kernel::Object;
use crate::settings;

settings!(OFF_TASK_FLAGS);

/// `PF_KTHREAD` of include/linux/sched.h; the value has not changed since 2.6.
const PF_KTHREAD: u32 = 0x0020_0000;

/// Sized by the agent. Preallocated: it may be filled with a run queue locked.
pub type Known<Key = u64> = HashMap<Key, u32, 1>;
pub type Free = Stack<u32, 1>;

/// Why there is no slot; what is charged then goes to `slot::UNKNOWN`.
pub enum Missing {
    UnreadableCgroup,
    NoFreeSlot,
}

/// The slot of the cgroup that a task is in, a new one if it has none.
///
/// Plain numbers go in and out: of a `Result` the compiler moves parts that nobody has set, which the verifier refuses.
#[inline(always)]
pub fn find(known: &Known, free: &Free, task: impl Object, id: u64, lose: impl Fn(Missing)) -> u32 {
    if id == 0 {
        lose(Missing::UnreadableCgroup);
        return slot::UNKNOWN;
    }
    if id == cgroup::ROOT_ID && is_kernel_thread(task) {
        return slot::KERNEL;
    }
    find_key(known, free, id, lose)
}

#[inline(always)]
#[must_use]
pub fn is_kernel_thread(task: impl Object) -> bool {
    task.u32(&OFF_TASK_FLAGS).unwrap_or(0) & PF_KTHREAD != 0
}

/// The slot of a key, a new one if it has none.
#[inline(always)]
pub fn find_key<Key: Copy>(known: &Known<Key>, free: &Free, key: Key, lose: impl Fn(Missing)) -> u32 {
    known_slot(known, key).unwrap_or_else(|| new_slot(known, free, key, lose))
}

/// That of a key that has one.
#[inline(always)]
#[must_use]
pub fn known_slot<Key>(known: &Known<Key>, key: Key) -> Option<u32> {
    // SAFETY: an entry may be reused for another cgroup only after the agent has removed it, long after its last task.
    unsafe { known.get(key) }.copied()
}

#[inline(always)]
fn new_slot<Key: Copy>(known: &Known<Key>, free: &Free, key: Key, lose: impl Fn(Missing)) -> u32 {
    let Ok(Some(slot)) = free.pop() else {
        lose(Missing::NoFreeSlot);
        return slot::UNKNOWN;
    };
    if known.insert(key, slot, u64::from(BPF_NOEXIST)).is_ok() {
        return slot;
    }
    // Another CPU was first with this key.
    if free.push(slot, 0).is_err() {
        lose(Missing::NoFreeSlot);
    }
    known_slot(known, key).unwrap_or_else(|| {
        lose(Missing::NoFreeSlot);
        slot::UNKNOWN
    })
}
