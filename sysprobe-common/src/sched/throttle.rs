//! How long groups of tasks were throttled at a time.

use crate::hist;

/// What is kept of one cgroup that has a quota. A throttling is one on one CPU, as in the kernel's own
/// account.
///
/// The 32-bit numbers wrap, as those of `SchedStats` do.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ThrottleStats {
    /// The sum over all of `lengths`, in nanoseconds.
    pub throttled_ns: u64,
    /// How many threads were held up, summed over all of them.
    pub threads: u64,
    /// Throttlings by length.
    pub lengths: [u32; hist::BUCKETS],
}

const _: () = assert!(size_of::<ThrottleStats>() == 440);

/// A group's queue on one CPU that is or was throttled.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Hold {
    /// Since when, by the run queue's clock.
    pub since: u64,
    /// Until when; 0 as long as it is not over.
    pub until: u64,
    /// The same of the time before.
    pub earlier_since: u64,
    pub earlier_until: u64,
    /// How long it had been throttled before, in nanoseconds.
    pub before: u64,
    /// How many threads it holds up.
    pub threads: u64,
    /// Of a group: its cgroup. The address of one that has gone may come back as another's.
    pub cgroup: u64,
}

impl Hold {
    pub const NEW: Self =
        Self { since: 0, until: 0, earlier_since: 0, earlier_until: 0, before: 0, threads: 0, cgroup: 0 };
}
