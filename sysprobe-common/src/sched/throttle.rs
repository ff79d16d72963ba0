//! Single throttles of task groups, and their lengths.

use crate::hist;

/// The statistics of one cgroup with a quota. A group is throttled on each CPU separately, and each throttle
/// counts, as in the kernel's own statistics.
///
/// The 32-bit counters wrap, as those of `SchedStats` do.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ThrottleStats {
    /// The total length of all throttles in `lengths`, in nanoseconds.
    pub throttled_ns: u64,
    /// Throttled threads, summed over all throttles.
    pub threads: u64,
    /// Throttles by length.
    pub lengths: [u32; hist::BUCKETS],
}

const _: () = assert!(size_of::<ThrottleStats>() == 440);

/// A group's queue on one CPU that is or was throttled.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Throttle {
    /// When the throttle began, by the run queue's clock.
    pub since: u64,
    /// When it ended; 0 while it lasts.
    pub until: u64,
    /// The same for the throttle before this one.
    pub earlier_since: u64,
    pub earlier_until: u64,
    /// The queue's throttled time before this throttle, in nanoseconds. For a group: the part of its total
    /// that is already accounted for.
    pub before: u64,
    /// Throttled threads.
    pub threads: u64,
    /// For a group: its cgroup's id, because the address of a freed group may be reused.
    pub cgroup: u64,
}

impl Throttle {
    pub const NEW: Self =
        Self { since: 0, until: 0, earlier_since: 0, earlier_until: 0, before: 0, threads: 0, cgroup: 0 };
}
