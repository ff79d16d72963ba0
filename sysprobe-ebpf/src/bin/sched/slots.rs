//! From a cgroup to its slot. Looked up once per task, and again when it moves to another cgroup.

use aya_ebpf::bindings::BPF_NOEXIST;
use aya_ebpf::btf_maps::{HashMap, Stack};
use aya_ebpf::macros::btf_map;
use sysprobe_common::sched::SchedLoss;
use sysprobe_common::{cgroup, slot};
use sysprobe_ebpf::kernel::Object;

use crate::book::{OFF_TASK_FLAGS, lose};

/// `PF_KTHREAD` of include/linux/sched.h; the value has not changed since 2.6.
const PF_KTHREAD: u32 = 0x0020_0000;

/// Cgroup id to slot. Preallocated: it is filled with a run queue locked.
#[btf_map]
static SCHED_SLOTS: HashMap<u64, u32, 1> = HashMap::new();
#[btf_map]
static SCHED_FREE: Stack<u32, 1> = Stack::new();

#[inline(always)]
pub(crate) fn find_slot(task: impl Object, id: u64) -> u32 {
    if id == 0 {
        lose(SchedLoss::UnreadableCgroup);
        return slot::UNKNOWN;
    }
    if id == cgroup::ROOT_ID && task.u32(&OFF_TASK_FLAGS).unwrap_or(0) & PF_KTHREAD != 0 {
        return slot::KERNEL;
    }
    known_slot(id).unwrap_or_else(|| new_slot(id))
}

#[inline(always)]
fn known_slot(id: u64) -> Option<u32> {
    // SAFETY: an entry may be reused for another cgroup only after the agent has removed it, long after its last task.
    unsafe { SCHED_SLOTS.get(id) }.copied()
}

#[inline(always)]
fn new_slot(id: u64) -> u32 {
    let Ok(Some(slot)) = SCHED_FREE.pop() else {
        lose(SchedLoss::NoFreeSlot);
        return slot::UNKNOWN;
    };
    if SCHED_SLOTS.insert(id, slot, u64::from(BPF_NOEXIST)).is_ok() {
        return slot;
    }
    // Another CPU was first with this cgroup.
    if SCHED_FREE.push(slot, 0).is_err() {
        lose(SchedLoss::NoFreeSlot);
    }
    known_slot(id).unwrap_or_else(|| {
        lose(SchedLoss::NoFreeSlot);
        slot::UNKNOWN
    })
}
