//! When a task's group was throttled, and the lengths of single throttles.
//!
//! A group has a queue on each CPU, and each is throttled separately. Since 6.18 the kernel throttles tasks
//! one by one as they return to user space: each throttle begins with a switch, and totals of the queue give
//! its length. Before, the kernel takes the queue away with all its tasks, in functions that are hooked where
//! possible.

use aya_ebpf::bindings::BPF_F_MMAPABLE;
use aya_ebpf::btf_maps::{Array, LruHashMap};
use aya_ebpf::macros::btf_map;
use sysprobe_common::hist;
use sysprobe_common::sched::throttle::{Throttle, ThrottleStats};
use sysprobe_common::sched::{SchedLoss, SchedTask, flag};
use sysprobe_ebpf::atomic;
use sysprobe_ebpf::cgroup::{OFF_CGROUP_KN, OFF_KN_ID};
use sysprobe_ebpf::globals;
use sysprobe_ebpf::kernel::{ABSENT, Address, Object, read_u64, read_u64_at};
use sysprobe_ebpf::slots::{self, Free, Known, Missing, Room};

use crate::losses::lose;
use crate::queue::{OFF_GROUP_QUEUE_QUEUE, OFF_TASK_GROUP_QUEUE};
use crate::timeline;
use crate::wait::Span;

globals!(
    /// Since 6.18: the task itself is throttled.
    OFF_TASK_THROTTLED,
    /// When the throttle by the group's own quota began on this CPU; 0 if there is none.
    OFF_GROUP_QUEUE_THROTTLED_SINCE,
    /// The same for its own or an ancestor's quota, and the queue's throttled time before that.
    OFF_GROUP_QUEUE_HELD_SINCE,
    OFF_GROUP_QUEUE_HELD_TOTAL,
    /// Not 0 if the queue was ever throttled, by any group's quota.
    OFF_GROUP_QUEUE_EVER_HELD,
    OFF_GROUP_QUEUE_GROUP,
    /// `task_group.cfs_rq`: a group's queues by CPU. In 6.18 an array of pointers, in 7.3 a pointer into the
    /// memory of each CPU.
    OFF_GROUP_QUEUES,
    /// From a task group to its cgroup.
    OFF_GROUP_CGROUP,
    /// A group's time throttled by its own quota, summed over its queues.
    OFF_GROUP_THROTTLED_TOTAL,
    /// From a task's scheduling entity to that of its group, from there to the next one up, and from each to
    /// its queue.
    OFF_TASK_PARENT,
    OFF_ENTITY_PARENT,
    OFF_ENTITY_QUEUE,
);

/// The number of levels that are searched for quotas, without the root: a pod's containers are three to five
/// levels down, and twice as many if the node is itself a container.
const LEVELS: usize = 12;

/// Throttles, by the address of a group's queue. By the address of a group: the part of its total that is
/// accounted for. Sized by the agent.
#[btf_map]
static SCHED_THR_QUEUES: LruHashMap<u64, Throttle, 1> = LruHashMap::new();
/// By slot, from a set of slots other than that of tasks. Sized by the agent.
#[btf_map]
static SCHED_THROTTLES: Array<ThrottleStats, 1, { BPF_F_MMAPABLE as usize }> = Array::new();
#[btf_map]
static SCHED_THR_SLOTS: Known = Known::new();
#[btf_map]
static SCHED_THR_FREE: Free = Free::new();
#[btf_map]
static SCHED_THR_ROOM: Room = Room::new();

#[inline(always)]
pub(crate) fn record_of(queue: u64) -> Option<*mut Throttle> {
    SCHED_THR_QUEUES.get_ptr_mut(queue)
}

#[inline(always)]
pub(crate) fn remember(queue: u64, throttle: Throttle) {
    if SCHED_THR_QUEUES.insert(queue, throttle, 0).is_err() {
        lose(SchedLoss::ThrottlesFull);
    }
}

/// Checks the throttles of a task that leaves its CPU. If it was throttled the last time, that throttle is
/// over, and perhaps those of groups above are. If it is throttled now, that is recorded, for the task and
/// for each group that has used up its quota.
#[inline(always)]
pub(crate) fn look(task: impl Object, known: &mut SchedTask, was_held: bool, is_involuntary: bool) {
    if OFF_TASK_THROTTLED.load() == ABSENT {
        return;
    }
    let is_held = is_involuntary && is_throttled(task);
    if is_held && let Some(queue) = task.follow(&OFF_TASK_GROUP_QUEUE) {
        known.flags |= flag::HELD;
        known.held_since = queue.u64_or_zero(&OFF_GROUP_QUEUE_HELD_SINCE);
        known.held_before = queue.u64_or_zero(&OFF_GROUP_QUEUE_HELD_TOTAL);
    }
    if is_held || was_held {
        each_queue(task, |queue| look_at(queue, is_held));
    }
}

/// The same outside of a switch, for a task that is no longer throttled.
#[inline(always)]
pub(crate) fn look_again(task: impl Object, was_held: bool) {
    if OFF_TASK_THROTTLED.load() != ABSENT && was_held {
        each_queue(task, |queue| look_at(queue, false));
    }
}

#[inline(always)]
fn look_at(queue: impl Object, is_held: bool) {
    let since = queue.u64_or_zero(&OFF_GROUP_QUEUE_THROTTLED_SINCE);
    let throttle = record_of(queue.address());
    if let Some(throttle) = throttle {
        // SAFETY: the pointer is into the map's memory and stays valid while the program runs; the run queue
        // is locked.
        let throttle = unsafe { &mut *throttle };
        if throttle.since == since {
            throttle.threads += u64::from(is_held);
            return;
        }
        finish(queue, throttle);
    }
    if since != 0 && is_held {
        note_group(queue);
        let before = queue.u64_or_zero(&OFF_GROUP_QUEUE_HELD_TOTAL);
        remember(queue.address(), Throttle { since, before, threads: 1, ..Throttle::NEW });
    }
}

/// Accounts for a throttle that is over, once. The queue's total has grown by this throttle alone since it
/// began, because each throttle stops at least one task. That total includes an ancestor's throttle at the
/// same time. The group's own total excludes it, but is that of all its queues. So the lower growth counts.
#[inline(always)]
fn finish(queue: impl Object, throttle: &mut Throttle) {
    if throttle.threads == 0 {
        return;
    }
    let group = queue.follow_or_null(&OFF_GROUP_QUEUE_GROUP);
    let of_queue = queue.u64_or_zero(&OFF_GROUP_QUEUE_HELD_TOTAL).wrapping_sub(throttle.before);
    let Some(booked) = record_of(group.address()) else {
        lose(SchedLoss::ThrottlesFull);
        return;
    };
    // SAFETY: the pointer is into the map's memory and stays valid while the program runs.
    let booked = unsafe { &mut (*booked).before };
    let of_group = group.u64_or_zero(&OFF_GROUP_THROTTLED_TOTAL).wrapping_sub(*booked);
    let ns = if of_queue < of_group { of_queue } else { of_group };
    atomic::add_u64(booked, ns);
    book(queue, ns, throttle.threads);
    throttle.threads = 0;
}

/// Records the group's total before the first throttle that is accounted for.
#[inline(always)]
fn note_group(queue: impl Object) {
    let group = queue.follow_or_null(&OFF_GROUP_QUEUE_GROUP);
    let cgroup = cgroup_of(group);
    // SAFETY: the pointer is into the map's memory and stays valid while the program runs.
    let is_noted = record_of(group.address()).is_some_and(|noted| unsafe { (*noted).cgroup } == cgroup);
    if !is_noted {
        let before = group.u64_or_zero(&OFF_GROUP_THROTTLED_TOTAL);
        remember(group.address(), Throttle { before, cgroup, ..Throttle::NEW });
    }
}

/// Without a branch, because this runs once for each level and the verifier explores every branch.
#[inline(always)]
fn cgroup_of(group: impl Object) -> u64 {
    let cgroup = group.follow_or_null(&OFF_GROUP_CGROUP);
    cgroup.follow_or_null(&OFF_CGROUP_KN).u64_or_zero(&OFF_KN_ID)
}

/// Adds a throttle to the cgroup whose quota it was.
#[inline(always)]
pub(crate) fn book(queue: impl Object, ns: u64, threads: u64) {
    let cgroup = cgroup_of(queue.follow_or_null(&OFF_GROUP_QUEUE_GROUP));
    // The address of a queue may be reused for another one, which has lower totals.
    if cgroup == 0 || ns >> 63 != 0 {
        lose(SchedLoss::UnreadableCgroup);
        return;
    }
    let slot = slots::find_key(&SCHED_THR_SLOTS, (&SCHED_THR_FREE, &SCHED_THR_ROOM), cgroup, |_: Missing| {
        lose(SchedLoss::NoFreeSlot);
    });
    let Some(stats) = SCHED_THROTTLES.get_ptr_mut(slot) else { return };
    // SAFETY: the pointer is into the map's memory and stays valid while the program runs.
    let stats = unsafe { &mut *stats };
    atomic::add_u64(&mut stats.throttled_ns, ns);
    atomic::add_u64(&mut stats.threads, threads);
    if let Some(bucket) = stats.lengths.get_mut(hist::bucket_of(ns)) {
        atomic::add_u32(bucket, 1);
    }
}

/// Calls `act` with the queue that a task is in, and with those of the groups above.
#[inline(always)]
fn each_queue<T: Object>(task: T, mut act: impl FnMut(T)) {
    act(task.follow_or_null(&OFF_TASK_GROUP_QUEUE));
    let mut entity = task.follow_or_null(&OFF_TASK_PARENT);
    for _ in 1..LEVELS {
        if entity.address() == 0 {
            return;
        }
        act(entity.follow_or_null(&OFF_ENTITY_QUEUE));
        entity = entity.follow_or_null(&OFF_ENTITY_PARENT);
    }
    if entity.address() != 0 {
        lose(SchedLoss::ThrottleTooDeep);
    }
}

/// Whether the task itself is throttled, in kernels that throttle tasks.
#[inline(always)]
pub(crate) fn is_throttled(task: impl Object) -> bool {
    OFF_TASK_THROTTLED.load() != ABSENT && task.u8(&OFF_TASK_THROTTLED).unwrap_or(0) != 0
}

/// A waiting task leaves its queue for that of another CPU. Returns the throttles of its wait so far. If it
/// is still throttled, and so is the other queue, the throttle of that queue is recorded.
#[inline(always)]
pub(crate) fn migrate(task: impl Object, known: &mut SchedTask, wait: Span, cpu: u32) -> [Span; 2] {
    let throttled = is_throttled(task);
    let held = if throttled { [wait, Span::NONE] } else { held(task, known, wait) };
    if known.flags & flag::HELD != 0 {
        look_again(task, true);
        known.flags &= !flag::HELD;
    }
    if throttled {
        // As an untyped address, because the verifier allows no arithmetic with others.
        let queue = Address(read_u64(task.address(), &OFF_TASK_GROUP_QUEUE).unwrap_or(0));
        let there = queue_on(cpu, queue);
        let since = there.load_u64(&OFF_GROUP_QUEUE_HELD_SINCE);
        if since != 0 {
            known.flags |= flag::HELD;
            known.held_since = since;
            known.held_before = there.load_u64(&OFF_GROUP_QUEUE_HELD_TOTAL);
        }
    }
    held
}

/// The queue of a group on a CPU, where a group has an array of pointers to its queues.
#[inline(always)]
pub(crate) fn listed_queue(group: Address, cpu: u32) -> Option<Address> {
    if OFF_GROUP_QUEUES.load() == ABSENT {
        return None;
    }
    read_u64_at(group.load_u64(&OFF_GROUP_QUEUES) + 8 * u64::from(cpu)).map(Address)
}

/// The queue of the same group on another CPU; a bad address if it is not found.
#[inline(always)]
fn queue_on(cpu: u32, queue: Address) -> Address {
    let group = queue.follow_or_null(&OFF_GROUP_QUEUE_GROUP);
    let is_of_group = |queue: Address| queue.load_u64(&OFF_GROUP_QUEUE_GROUP) == group.0;
    let listed = listed_queue(group, cpu).unwrap_or(Address(0));
    if is_of_group(listed) {
        return listed;
    }
    // The queues are in the memory of their CPUs, as the run queues are.
    let run_queue = queue.load_u64(&OFF_GROUP_QUEUE_QUEUE);
    // SAFETY: the pointer is into the map's memory and stays valid while the program runs.
    let other = timeline::of_cpu(cpu).map_or(0, |line| unsafe { (*line).run_queue });
    let by_distance = Address(queue.0.wrapping_add(other.wrapping_sub(run_queue)));
    if is_of_group(by_distance) { by_distance } else { Address(0) }
}

/// The throttles of the task's group during its wait: the last two, the later one first.
#[inline(always)]
pub(crate) fn held(task: impl Object, last: &SchedTask, wait: Span) -> [Span; 2] {
    let queue = task.follow_or_null(&OFF_TASK_GROUP_QUEUE);
    if OFF_TASK_THROTTLED.load() == ABSENT {
        return held_with_queue(queue);
    }
    if last.flags & flag::HELD == 0 || last.held_since == 0 {
        return [Span::NONE; 2];
    }
    // The kernel adds a throttle to the queue's total just before it lets the task run again.
    let total = queue.u64_or_zero(&OFF_GROUP_QUEUE_HELD_TOTAL);
    let to = last.held_since.wrapping_add(total.wrapping_sub(last.held_before));
    [Span { from: wait.from, to }, Span::NONE]
}

/// When the whole queue was throttled. A throttle that begins as the task leaves its CPU belongs to its next
/// wait.
#[inline(always)]
fn held_with_queue(queue: impl Object) -> [Span; 2] {
    if OFF_GROUP_QUEUE_EVER_HELD.load() == ABSENT || queue.u64_or_zero(&OFF_GROUP_QUEUE_EVER_HELD) == 0 {
        return [Span::NONE; 2];
    }
    let Some(throttle) = record_of(queue.address()) else { return [Span::NONE; 2] };
    // SAFETY: the pointer is into the map's memory and stays valid while the program runs.
    let throttle = unsafe { *throttle };
    // A throttle in progress does not reach the end of time, where waits are placed that are to stay unknown.
    let until = if throttle.until == 0 { u64::MAX / 2 } else { throttle.until };
    [
        Span { from: throttle.since, to: until },
        Span { from: throttle.earlier_since, to: throttle.earlier_until },
    ]
}
