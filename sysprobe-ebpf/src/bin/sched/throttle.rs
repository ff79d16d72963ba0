//! When a task's group was throttled, and how long groups are throttled at a time.
//!
//! A group has a queue on each CPU, and each is throttled by itself. Since 6.18 the kernel throttles tasks one by one as they
//! return to user space: then every throttling shows in a switch, and its length in totals that the queue keeps. Before that it
//! takes the queue away with all that is in it, in functions which are hooked where they can be.

use aya_ebpf::bindings::BPF_F_MMAPABLE;
use aya_ebpf::btf_maps::{Array, LruHashMap};
use aya_ebpf::macros::btf_map;
use sysprobe_common::hist;
use sysprobe_common::sched::throttle::{HOLDS, Hold, ThrottleStats};
use sysprobe_common::sched::{SchedLoss, SchedTask, flag};
use sysprobe_ebpf::atomic;
use sysprobe_ebpf::cgroup::id_of;
use sysprobe_ebpf::kernel::{ABSENT, Object};
use sysprobe_ebpf::settings;
use sysprobe_ebpf::slots::{self, Free, Known, Missing};

use crate::book::lose;
use crate::queue::OFF_TASK_GROUP_QUEUE;
use crate::wait::Span;

settings!(
    /// Since 6.18 a task is throttled by itself.
    OFF_TASK_THROTTLED,
    /// Since when the group is throttled on this CPU by its own quota; 0 if it is not.
    OFF_GROUP_QUEUE_THROTTLED_SINCE,
    /// The same by its own or an ancestor's, and how long it was before.
    OFF_GROUP_QUEUE_HELD_SINCE,
    OFF_GROUP_QUEUE_HELD_TOTAL,
    /// Not 0 if it ever was, by whomever's quota.
    OFF_GROUP_QUEUE_EVER_HELD,
    OFF_GROUP_QUEUE_GROUP,
    /// From a group of tasks to its cgroup.
    OFF_GROUP_CGROUP,
    /// From a task's scheduling entity to the one of its group, and from that to the queue that it is in.
    OFF_TASK_PARENT,
    OFF_ENTITY_PARENT,
    OFF_ENTITY_QUEUE,
);

/// How far up quotas are looked for: a pod's containers are four or five levels down.
const LEVELS: usize = 8;

/// By the address of a group's queue.
#[btf_map]
static SCHED_HOLDS: LruHashMap<u64, Hold, { HOLDS as usize }> = LruHashMap::new();
/// By slot; these are other slots than those of tasks. Sized by the agent.
#[btf_map]
static SCHED_THROTTLES: Array<ThrottleStats, 1, { BPF_F_MMAPABLE as usize }> = Array::new();
#[btf_map]
static SCHED_THR_SLOTS: Known = Known::new();
#[btf_map]
static SCHED_THR_FREE: Free = Free::new();

#[inline(always)]
pub(crate) fn hold_of(queue: u64) -> Option<*mut Hold> {
    SCHED_HOLDS.get_ptr_mut(queue)
}

#[inline(always)]
pub(crate) fn remember(queue: u64, hold: Hold) {
    if SCHED_HOLDS.insert(queue, hold, 0).is_err() {
        lose(SchedLoss::ThrottlesFull);
    }
}

/// Notes that a task was throttled as it leaves its CPU, for it and for each group above that has used up its quota.
#[inline(always)]
pub(crate) fn note(task: impl Object, known: &mut SchedTask) {
    if OFF_TASK_THROTTLED.load() == ABSENT || task.u8(&OFF_TASK_THROTTLED).unwrap_or(0) == 0 {
        return;
    }
    let Some(queue) = task.follow(&OFF_TASK_GROUP_QUEUE) else { return };
    known.flags |= flag::HELD;
    known.held_since = queue.u64(&OFF_GROUP_QUEUE_HELD_SINCE).unwrap_or(0);
    known.held_before = queue.u64(&OFF_GROUP_QUEUE_HELD_TOTAL).unwrap_or(0);
    each_queue(task, |queue| {
        let since = queue.u64(&OFF_GROUP_QUEUE_THROTTLED_SINCE).unwrap_or(0);
        if since != 0 {
            note_queue(queue, since);
        }
    });
}

#[inline(always)]
fn note_queue(queue: impl Object, since: u64) {
    if let Some(hold) = hold_of(queue.address()) {
        // SAFETY: the pointer is into the map's memory and stays valid while the program runs; the run queue is locked.
        let hold = unsafe { &mut *hold };
        if hold.since == since {
            hold.threads += 1;
            return;
        }
        finish(queue, hold);
    }
    let before = queue.u64(&OFF_GROUP_QUEUE_HELD_TOTAL).unwrap_or(0);
    remember(queue.address(), Hold { since, until: 0, before, threads: 1 });
}

/// A task that was throttled runs again: so the throttling of its group is over, and perhaps of groups above.
#[inline(always)]
pub(crate) fn finish_all(task: impl Object, last: &SchedTask) {
    if OFF_TASK_THROTTLED.load() == ABSENT || last.flags & flag::HELD == 0 {
        return;
    }
    each_queue(task, |queue| {
        let Some(hold) = hold_of(queue.address()) else { return };
        // SAFETY: as in `note_queue`.
        let hold = unsafe { &mut *hold };
        if queue.u64(&OFF_GROUP_QUEUE_THROTTLED_SINCE) != Some(hold.since) {
            finish(queue, hold);
        }
    });
}

/// Books a throttling that is over, once. Since then the queue's total has been added to, for this one alone: every
/// throttling holds up at least one task, so none goes unseen.
#[inline(always)]
fn finish(queue: impl Object, hold: &mut Hold) {
    if hold.threads == 0 {
        return;
    }
    let total = queue.u64(&OFF_GROUP_QUEUE_HELD_TOTAL).unwrap_or(0);
    book(queue, total.wrapping_sub(hold.before), hold.threads);
    hold.threads = 0;
}

/// Adds a throttling to the cgroup whose quota it was.
#[inline(always)]
pub(crate) fn book(queue: impl Object, ns: u64, threads: u64) {
    let group = queue.follow(&OFF_GROUP_QUEUE_GROUP);
    let cgroup = group.and_then(|group| group.follow(&OFF_GROUP_CGROUP)).map_or(0, id_of);
    // The address of a queue may come back as another's, which has waited for nothing yet.
    if cgroup == 0 || ns >> 63 != 0 {
        lose(SchedLoss::UnreadableCgroup);
        return;
    }
    let slot = slots::find_key(&SCHED_THR_SLOTS, &SCHED_THR_FREE, cgroup, |_: Missing| {
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

/// The queue that a task is in, and those of the groups above.
#[inline(always)]
fn each_queue<T: Object>(task: T, mut act: impl FnMut(T)) {
    let Some(own) = task.follow(&OFF_TASK_GROUP_QUEUE) else { return };
    act(own);
    let mut parent = task.follow(&OFF_TASK_PARENT);
    for _ in 1..LEVELS {
        let Some(entity) = parent.filter(|entity| entity.address() != 0) else { return };
        let Some(queue) = entity.follow(&OFF_ENTITY_QUEUE) else { return };
        act(queue);
        parent = entity.follow(&OFF_ENTITY_PARENT);
    }
}

/// When the task's group was throttled while it waited.
#[inline(always)]
pub(crate) fn held(task: impl Object, last: &SchedTask, wait: Span) -> Span {
    let Some(queue) = task.follow(&OFF_TASK_GROUP_QUEUE) else { return Span::NONE };
    if OFF_TASK_THROTTLED.load() == ABSENT {
        return held_with_queue(queue);
    }
    if last.flags & flag::HELD == 0 {
        return Span::NONE;
    }
    // A task that was throttled by itself can run again when its queue's total has been added to.
    let total = queue.u64(&OFF_GROUP_QUEUE_HELD_TOTAL).unwrap_or(0);
    let to = last.held_since.wrapping_add(total.wrapping_sub(last.held_before));
    Span { from: wait.from, to }
}

/// The last time that the queue was taken away with all tasks in it.
#[inline(always)]
fn held_with_queue(queue: impl Object) -> Span {
    if OFF_GROUP_QUEUE_EVER_HELD.load() == ABSENT || queue.u64(&OFF_GROUP_QUEUE_EVER_HELD).unwrap_or(0) == 0 {
        return Span::NONE;
    }
    let Some(hold) = hold_of(queue.address()) else { return Span::NONE };
    // SAFETY: the pointer is into the map's memory and stays valid while the program runs.
    let Hold { since, until, .. } = unsafe { *hold };
    Span { from: since, to: if until == 0 { u64::MAX } else { until } }
}
