//! Scheduler: statistics per cgroup, the record of a task, and reasons why a sample may be lost.

use crate::{hist, lanes};

mod interrupts;
pub mod slices;
pub mod threads;
pub mod throttle;
pub mod timeline;

pub use timeline::{Cause, Division, Interference, Pair, RunInterval, Timeline};

/// The statistics of one shard of a slot. They take eight cache lines; an update touches the first one and
/// that of the bucket.
///
/// The 32-bit counters wrap. The agent reads them more often than that (at least once a minute) and keeps
/// 64-bit totals.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SchedStats {
    /// Nanoseconds for which tasks were runnable without running: the sum over all waits in `wait`.
    pub wait_ns: u64,
    /// Nanoseconds for which tasks ran.
    pub on_cpu_ns: u64,
    /// Switches away from a task that went to sleep, as the kernel counts them in `task_struct.nvcsw`.
    pub voluntary: u32,
    /// Switches away from a task that was still runnable, as in `task_struct.nivcsw`.
    pub involuntary: u32,
    /// `wait_ns` by cause.
    pub causes: [u64; Cause::ALL.len()],
    /// Waits by length, one per arrival on a CPU.
    pub wait: [u32; hist::BUCKETS],
}

const _: () = assert!(size_of::<SchedStats>() == 504 && align_of::<SchedStats>() == 8);

/// A task's totals when it was last accounted for. The next accounting adds the difference.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SchedTask {
    pub run_delay: u64,
    pub on_cpu: u64,
    /// After a move to another cgroup, until the next accounting: `on_cpu` at the move, plus 1. Otherwise 0.
    pub moved_at: u64,
    /// The id of the cgroup that `slot` stands for.
    pub cgroup: u64,
    /// The address of the task's `css_set`, and the lower half of `slot::room::CHANGES` at that time. While
    /// both are unchanged, so are the cgroup and its slot. The address alone is not enough: a `css_set` that
    /// is freed while a task sleeps may be reused for another cgroup.
    pub css_set: u64,
    pub changes: u32,
    /// Bits of `flag`.
    pub flags: u32,
    pub arrivals: u32,
    pub voluntary: u32,
    pub involuntary: u32,
    pub slot: u32,
    /// With `flag::PIECES`: the part of the current wait that was accounted for when the task migrated, in
    /// nanoseconds.
    pub waited: u64,
    /// With `flag::HELD`: when the throttle of the task's queue began, by the run queue's clock.
    pub held_since: u64,
    /// With `flag::HELD`: the queue's throttled time before that, in nanoseconds.
    pub held_before: u64,
}

const _: () = assert!(size_of::<SchedTask>() == 88);

/// Bits for rare conditions of a task. The members that belong to them are outside the cache line that every
/// switch needs.
pub mod flag {
    /// A thread that runs softirqs (`ksoftirqd`).
    pub const SOFTIRQS: u32 = 1;
    /// The task migrated to another CPU while it waited.
    pub const PIECES: u32 = 2;
    /// The task was throttled when it left its CPU, or, still throttled, migrated to a CPU on
    /// which its group is throttled, too.
    pub const HELD: u32 = 4;
    /// The task migrated to another CPU while it slept and was still on the run queue
    /// (`sched_entity.sched_delayed`). The kernel counts its sleep from then on as a wait.
    pub const DELAYED: u32 = 8;
    /// A kernel thread that did not have its name yet when it was last seen.
    pub const UNNAMED: u32 = 16;
    /// Flags that outlive a time slice.
    pub const OF_TASK: u32 = SOFTIRQS | UNNAMED;
}

impl SchedTask {
    /// The part of the last wait that was accounted for when the task migrated, in nanoseconds.
    #[inline]
    #[must_use]
    pub const fn waited_elsewhere(&self) -> u64 {
        if self.flags & flag::PIECES == 0 { 0 } else { self.waited }
    }

    /// Whether the time that the kernel counts as the task's wait really is one.
    #[inline]
    #[must_use]
    pub const fn is_wait_known(&self) -> bool {
        self.flags & flag::DELAYED == 0
    }

    /// A new task: all totals are 0.
    pub const NEW: Self = Self {
        run_delay: 0,
        on_cpu: 0,
        moved_at: 0,
        cgroup: 0,
        css_set: 0,
        changes: 0,
        flags: 0,
        arrivals: 0,
        voluntary: 0,
        involuntary: 0,
        slot: 0,
        waited: 0,
        held_since: 0,
        held_before: 0,
    };
}

/// The same in a hash by the task's address, for attach modes without task storage. Addresses are reused, so
/// the start time tells tasks apart.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct HashedTask {
    pub born: u64,
    pub task: SchedTask,
}

const _: () = assert!(size_of::<HashedTask>() == 96);

/// Why a sample was lost or could not be attributed. One counter each, in lanes.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchedLoss {
    /// A task that was recorded neither by the scan at start nor at its creation.
    UnknownTask = 0,
    /// No room for a new task.
    TaskStorageFull = 1,
    /// No free slot for a cgroup: its time is charged to `unknown`. Programs count look-ups, and the agent
    /// adds the switches in `slot::NONE_FREE`.
    NoFreeSlot = 2,
    /// A kernel structure between the task and its cgroup could not be read.
    UnreadableCgroup = 3,
    /// A total went backwards. The difference is discarded.
    BackwardsClock = 4,
    /// The task's totals could not be read.
    UnreadableTask = 5,
    /// No room for a throttled group, so the length of its throttle is not known.
    ThrottlesFull = 6,
    /// A wait that the kernel began to count while the task still slept. It is not counted.
    DelayedSleeper = 7,
    /// The task's storage was busy (5.13 to 6.1). The task's next accounting makes up for it, but the causes
    /// of that wait are `unknown`, or those of its last CPU alone.
    TaskStorageBusy = 8,
    /// A throttled task is nested in more groups than are checked, so throttles of the outer ones are not
    /// seen.
    ThrottleTooDeep = 9,
    /// No room for an interference pair (victim, culprit). That part of the victim's wait is
    /// `Cause::Unknown`.
    InterferenceFull = 10,
}

impl SchedLoss {
    pub const COUNT: u32 = 11;
    /// The counter after those of losses: nanoseconds of waits whose cause is not known because of
    /// `InterferenceFull`.
    pub const UNPLACED_NS: u32 = Self::COUNT;
    pub const ALL: [Self; Self::COUNT as usize] = [
        Self::UnknownTask,
        Self::TaskStorageFull,
        Self::NoFreeSlot,
        Self::UnreadableCgroup,
        Self::BackwardsClock,
        Self::UnreadableTask,
        Self::ThrottlesFull,
        Self::DelayedSleeper,
        Self::TaskStorageBusy,
        Self::ThrottleTooDeep,
        Self::InterferenceFull,
    ];

    /// The value of the `reason` label.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::UnknownTask => "unknown_task",
            Self::TaskStorageFull => "task_storage_full",
            Self::NoFreeSlot => "no_free_slot",
            Self::UnreadableCgroup => "unreadable_cgroup",
            Self::BackwardsClock => "backwards_clock",
            Self::UnreadableTask => "unreadable_task",
            Self::ThrottlesFull => "throttles_full",
            Self::DelayedSleeper => "delayed_sleeper",
            Self::TaskStorageBusy => "task_storage_busy",
            Self::ThrottleTooDeep => "throttle_too_deep",
            Self::InterferenceFull => "interference_full",
        }
    }
}

const _: () = assert!(SchedLoss::UNPLACED_NS < lanes::WORDS);
