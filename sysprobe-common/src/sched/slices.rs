//! When a task had a CPU of late: what the time between two moments of it is told by.

use super::SchedTask;

/// How many slices of a task are remembered beside the one that is going on.
pub const SLICES: usize = 4;

/// A time for which a task had a CPU. All in `CLOCK_MONOTONIC`, and as exact as the run queue's clock is kept
/// in step with it: some microseconds.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    pub arrived: u64,
    /// How long it had been runnable before.
    pub waited: u64,
    /// 0 as long as it has the CPU.
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

/// What lies in a task's storage.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct StoredTask {
    pub task: SchedTask,
    pub slices: Slices,
}

const _: () = assert!(SLICES.is_power_of_two());
const _: () = assert!(size_of::<StoredTask>() == 88 + 8 + 24 * SLICES);
