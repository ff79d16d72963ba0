//! Timelines: the last run intervals of each CPU; and interference: which cgroup made which one wait.

use core::mem::offset_of;

use crate::cgroup::KERNEL;

/// The occupant of an idle CPU. Other occupants are a cgroup's id, `cgroup::KERNEL`, [`SOFTIRQS`], and 0 if
/// the cgroup is not known.
pub const IDLE: u64 = u64::MAX - 1;
/// The occupant while a thread runs softirqs (`ksoftirqd`).
pub const SOFTIRQS: u64 = u64::MAX - 2;

/// Stands for a victim whose cgroup is not known. It is never the occupant of a CPU.
pub const UNKNOWN_VICTIM: u64 = u64::MAX - 3;

/// The cause of a wait, as far as the BPF programs can tell.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The CPU was idle and had not switched to the task yet.
    Idle = 0,
    /// Another task of the same cgroup ran.
    Own = 1,
    Kernel = 2,
    /// Interrupts and softirqs.
    Interrupt = 3,
    /// The CPU quota was used up.
    Throttled = 4,
    /// Time before the oldest run interval, and during missed runs of the program.
    Unknown = 5,
    /// Another cgroup ran. The interference table says which one.
    Other = 6,
}

impl Cause {
    pub const ALL: [Self; 7] =
        [Self::Idle, Self::Own, Self::Kernel, Self::Interrupt, Self::Throttled, Self::Unknown, Self::Other];

    /// The cause of another cgroup's wait while this occupant has the CPU.
    #[must_use]
    pub const fn of_occupant(occupant: u64) -> Self {
        match occupant {
            IDLE => Self::Idle,
            KERNEL => Self::Kernel,
            SOFTIRQS => Self::Interrupt,
            0 => Self::Unknown,
            _ => Self::Other,
        }
    }
}

/// A run interval: the time for which one cgroup or kernel threads had the CPU, or the CPU was idle. It
/// begins where the one before it ends.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RunInterval {
    /// The end, by the run queue's clock.
    pub until: u64,
    /// The cgroup that had the CPU, or one of the other occupants above.
    pub occupant: u64,
    /// The time that interrupts took, in nanoseconds.
    pub interrupted: u64,
    /// The same as a share of the interval, in units of 2^-16.
    pub interrupted_share: u32,
    /// The occupant as a [`Cause`].
    pub cause: u32,
}

impl RunInterval {
    pub const NONE: Self = Self { until: 0, occupant: 0, interrupted: 0, interrupted_share: 0, cause: 0 };
}

/// The cgroup that waited, and the one that ran meanwhile.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Pair {
    pub victim: u64,
    pub culprit: u64,
}

/// For how long a victim waited while a culprit ran.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Interference {
    pub of: Pair,
    pub ns: u64,
}

/// The share of interrupts that take a whole run interval.
pub const WHOLE_SHARE: u32 = 1 << 16;

/// The number of run intervals that a CPU keeps. The part of a wait before the oldest one is
/// `Cause::Unknown`.
pub const RUN_INTERVALS: usize = 128;
/// The number of pairs in a CPU's own interference table.
pub const PAIRS: usize = 64;
/// The number of displaced pairs that may wait to be moved into the map.
pub const LEAVING: usize = 128;

/// A wait that is being divided. It lies in the map, where the verifier does not track values. In registers
/// or on the stack, it would explore every branch for each run interval.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Division {
    /// The slot that the wait was charged to.
    pub slot: u64,
    /// The cgroup that waits, `cgroup::KERNEL`, or [`UNKNOWN_VICTIM`].
    pub victim: u64,
    /// The part that is still to be divided, by the run queue's clock.
    pub from: u64,
    pub to: u64,
    /// The part before a throttle of the victim's group. It is divided after the rest.
    pub earlier_from: u64,
    pub earlier_to: u64,
    /// The part before the preceding throttle.
    pub earliest_from: u64,
    pub earliest_to: u64,
    /// Nanoseconds by cause. The part of `Cause::Unknown` that found no room in the interference table is
    /// repeated at [`UNPLACED`].
    pub parts: [u64; PARTS],
}

/// A power of two, so that a mask bounds an index.
pub const PARTS: usize = 8;
/// The index after those of the causes.
pub const UNPLACED: u32 = 7;
const _: () = assert!(UNPLACED as usize == Cause::ALL.len());

/// The timeline of one CPU. The counters and clocks that every switch and every softirq uses are in the first
/// cache line.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug)]
pub struct Timeline {
    /// The number of the last run interval. Its index is this modulo `RUN_INTERVALS`.
    pub last: u32,
    /// Not 0 while a flush moves the interference table into the map, which must not be changed meanwhile.
    pub flushing: u32,
    /// Set when a flush finds this CPU idle; cleared when something runs here or a wait is divided here.
    /// While it is set, there is nothing to flush.
    pub asleep: u64,
    /// The total time of interrupts, and the part of it that is in run intervals, in nanoseconds.
    pub interrupted: u64,
    pub interrupted_noted: u64,
    /// When the current softirq began; 0 if there is none, 1 for one that is not measured.
    pub softirq_since: u64,
    /// The number of softirqs; and the sampling ratio, as a power of two (a measured softirq counts for all).
    pub softirqs: u32,
    pub softirq_share: u32,
    /// The difference from the run queue's clock to `CLOCK_MONOTONIC`, modulo 2^64; and when it was
    /// determined, by the run queue's clock.
    pub clock_offset: u64,
    pub clock_compared: u64,
    /// When the last measured softirq ended.
    pub softirq_measured: u64,
    /// When the current interrupt began; 0 if there is none.
    pub interrupt_since: u64,
    /// A group whose throttle this CPU is ending, 0 if there is none; when the throttle began; and the number
    /// of throttled threads.
    pub released_group: u64,
    pub released_since: u64,
    pub released_threads: u64,
    /// Displaced pairs by number modulo `LEAVING`: those from `left` up to `leaving` wait to be moved into
    /// the map.
    pub leaving: u32,
    pub left: u32,
    /// The address of this CPU's run queue; 0 before the clocks are first compared.
    pub run_queue: u64,
    pub pad: u64,
    pub division: Division,
    pub run_intervals: [RunInterval; RUN_INTERVALS],
    /// The interference table, by a hash of the pair.
    pub interference: [Interference; PAIRS],
    /// Displaced pairs; see `leaving`.
    pub on_their_way: [Interference; LEAVING],
}

const _: () =
    assert!(RUN_INTERVALS.is_power_of_two() && PAIRS.is_power_of_two() && LEAVING.is_power_of_two());
const _: () = assert!(PARTS > Cause::ALL.len() && PARTS.is_power_of_two());
const _: () = assert!(offset_of!(Timeline, clock_compared) == 56 && offset_of!(Timeline, division) == 128);
const _: () = assert!(offset_of!(Timeline, run_intervals) == 256 && size_of::<Timeline>() == 8960);
