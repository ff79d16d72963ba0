//! Scheduler: what is kept per cgroup and per task, and the ways a sample can be lost.

use crate::hist;

pub mod slices;
pub mod threads;
pub mod throttle;
pub mod timeline;

pub use timeline::{Cause, Debt, Debtor, Division, Stretch, Timeline};

/// What one shard of one slot holds. Eight cache lines; a booking touches the first and the one of its
/// bucket.
///
/// The 32-bit numbers wrap. The agent reads them more often than they can (at least once a minute) and keeps
/// 64 bits.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SchedStats {
    /// Nanoseconds that tasks were runnable without running: the sum over all of `wait`.
    pub wait_ns: u64,
    /// Nanoseconds that tasks ran.
    pub on_cpu_ns: u64,
    /// Switches away from a task that went to sleep, as the kernel counts them in `task_struct.nvcsw`.
    pub voluntary: u32,
    /// Switches away from a task that could have gone on, as in `task_struct.nivcsw`.
    pub involuntary: u32,
    /// What of `wait_ns` went by for which cause.
    pub causes: [u64; Cause::ALL.len()],
    /// Waits by length, one per arrival on a CPU.
    pub wait: [u32; hist::BUCKETS],
}

const _: () = assert!(size_of::<SchedStats>() == 504 && align_of::<SchedStats>() == 8);

/// What a task was last seen with. Differences to it are what gets booked.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SchedTask {
    pub run_delay: u64,
    pub on_cpu: u64,
    /// One more than `on_cpu` was when the task was last moved to another cgroup; 0 if it never was. Of a
    /// task without a slot (`slot::UNKNOWN`) instead since when there has been none (`slots::exhausted` of
    /// the programs).
    pub moved_at: u64,
    /// The id of the cgroup that `slot` stands for.
    pub cgroup: u64,
    /// The address of the task's `css_set`, and how many moves of any tasks there had been. While both stay,
    /// so does the cgroup. The address alone would not do: a `css_set` that is freed while a task sleeps
    /// comes back as another's.
    pub css_set: u64,
    pub moves: u32,
    /// What else there is to know: bits of `flag`.
    pub flags: u32,
    pub arrivals: u32,
    pub voluntary: u32,
    pub involuntary: u32,
    pub slot: u32,
    /// With `flag::PIECES`: how much of the wait that is going on was booked when the task was moved to
    /// another CPU.
    pub waited: u64,
    /// With `flag::HELD`: since when the task's queue had been throttled when the task was.
    pub held_since: u64,
    /// With `flag::HELD`: for how long the task's queue had been throttled before that.
    pub held_before: u64,
}

const _: () = assert!(size_of::<SchedTask>() == 88);

/// Rare things about a task. What comes with them is not in the cache line that each booking needs.
pub mod flag {
    /// A thread that does softirqs when there are many (`ksoftirqd`).
    pub const SOFTIRQS: u32 = 1;
    /// It was moved to another CPU while it waited.
    pub const PIECES: u32 = 2;
    /// It was throttled when it left its CPU.
    pub const HELD: u32 = 4;
    /// It was moved to another CPU while it slept and was still on the run queue
    /// (`sched_entity.sched_delayed`): the kernel counts what it sleeps from then on as a wait.
    pub const DELAYED: u32 = 8;
    /// A kernel thread that had not been named yet when it was last looked at.
    pub const UNNAMED: u32 = 16;
    /// What does not change with a slice.
    pub const OF_TASK: u32 = SOFTIRQS | UNNAMED;
}

impl SchedTask {
    /// How much of the wait that ended last was booked when the task was moved to another CPU.
    #[inline]
    #[must_use]
    pub const fn waited_elsewhere(&self) -> u64 {
        if self.flags & flag::PIECES == 0 { 0 } else { self.waited }
    }

    /// Whether what the kernel counts as the task's wait is one.
    #[inline]
    #[must_use]
    pub const fn is_wait_known(&self) -> bool {
        self.flags & flag::DELAYED == 0
    }

    /// A task that has done nothing yet.
    pub const NEW: Self = Self {
        run_delay: 0,
        on_cpu: 0,
        moved_at: 0,
        cgroup: 0,
        css_set: 0,
        moves: 0,
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

/// The same in a hash by the task's address, for kernels and hooks without task storage. An address is used
/// again for another task; the time of birth tells them apart.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct HashedTask {
    pub born: u64,
    pub task: SchedTask,
}

const _: () = assert!(size_of::<HashedTask>() == 96);

/// Why a booking was lost or could not be attributed. One counter each, shared by all CPUs.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchedLoss {
    /// A task that neither the walk at start nor its birth made known.
    UnknownTask = 0,
    /// No room for a new task.
    TaskStorageFull = 1,
    /// No free slot for a new cgroup: its time is charged to `unknown`.
    NoFreeSlot = 2,
    /// A member on the way from the task to its cgroup could not be read.
    UnreadableCgroup = 3,
    /// A total went backwards: discarded, never wrapped.
    BackwardsClock = 4,
    /// The task's totals could not be read.
    UnreadableTask = 5,
    /// No room for a throttled group: the length of that throttling is not known.
    ThrottlesFull = 6,
    /// A wait that the kernel began to count while the task still slept: it is left out.
    DelayedSleeper = 7,
    /// The kernel kept a program from the task's storage for the moment (5.13 to 6.1): the task's next
    /// booking makes up for it, but the causes of that wait are `unknown`, or those of its last CPU alone.
    TaskStorageBusy = 8,
    /// A throttled task is in more nested groups than are looked at: throttlings of the outer ones are not
    /// seen.
    ThrottleTooDeep = 9,
    /// No room for a pair of cgroups of which one made the other wait: that part of its wait is
    /// `Cause::Unknown`.
    InterferenceFull = 10,
}

impl SchedLoss {
    pub const COUNT: u32 = 11;
    /// The counter behind those of losses: nanoseconds of waits that `InterferenceFull` has cost their cause.
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
