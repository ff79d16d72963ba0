//! The last time slices of a task, by which other domains divide the time between two timestamps.

use super::SchedTask;

/// The number of slices kept for a task, beside the current one.
pub const SLICES: usize = 4;

/// A time slice of a task. Timestamps are converted from the run queue's clock to `CLOCK_MONOTONIC`, which is
/// exact to some microseconds.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    pub arrived: u64,
    /// The wait before the slice, in nanoseconds.
    pub waited: u64,
    /// 0 while the task has the CPU.
    pub left: u64,
}

/// The last slices of a task, by their numbers modulo `SLICES`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slices {
    pub last: u64,
    pub ring: [Slice; SLICES],
}

impl Slices {
    pub const NONE: Self = Self { last: 0, ring: [Slice { arrived: 0, waited: 0, left: 0 }; SLICES] };
}

/// The value in task storage.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct StoredTask {
    pub task: SchedTask,
    pub slices: Slices,
}

const _: () = assert!(SLICES.is_power_of_two());
const _: () = assert!(size_of::<StoredTask>() == 88 + 8 + 24 * SLICES);
