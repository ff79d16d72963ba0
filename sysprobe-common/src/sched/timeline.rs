//! What each CPU was occupied with of late, and which cgroup made which wait.

use crate::cgroup::KERNEL;

/// Stands for an idle CPU where an occupant is expected: a cgroup's id, `cgroup::KERNEL`, or 0 if it is not
/// known.
pub const IDLE: u64 = u64::MAX - 1;
/// Stands for softirqs that have a thread to run in.
pub const SOFTIRQS: u64 = u64::MAX - 2;

/// Stands for a victim whose cgroup is not known. It is never the occupant of a CPU.
pub const NOBODY: u64 = u64::MAX - 3;

/// Stands for the moment at which a softirq began that is not measured.
pub const UNMEASURED: u64 = 1;

/// Why a task waits, as far as the kernel side can tell.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The CPU idled: it was told of the task and had not switched to it yet.
    Idle = 0,
    /// Another task of the same cgroup ran.
    Own = 1,
    Kernel = 2,
    /// Interrupts and softirqs.
    Interrupt = 3,
    /// The CPU quota was used up.
    Throttled = 4,
    /// What is older than a timeline reaches back, and what ran unseen.
    Unknown = 5,
    /// Another cgroup ran; which one is in the debts.
    Other = 6,
}

impl Cause {
    pub const ALL: [Self; 7] =
        [Self::Idle, Self::Own, Self::Kernel, Self::Interrupt, Self::Throttled, Self::Unknown, Self::Other];

    /// To be the cause of another's wait.
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

/// A time during which one cgroup, or none, had a CPU. It begins where the one before it ends.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Stretch {
    /// By the run queue's clock.
    pub until: u64,
    /// The cgroup that had the CPU, as an occupant.
    pub occupant: u64,
    /// How much of it interrupts took, in nanoseconds.
    pub interrupted: u64,
    /// The same as a part of the whole, in units of 2^-16.
    pub interrupted_share: u32,
    /// The occupant as a [`Cause`].
    pub cause: u32,
}

impl Stretch {
    pub const NONE: Self = Self { until: 0, occupant: 0, interrupted: 0, interrupted_share: 0, cause: 0 };
}

/// The cgroup that waited, and the one that ran meanwhile.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Debtor {
    pub victim: u64,
    pub culprit: u64,
}

/// How long.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Debt {
    pub of: Debtor,
    pub ns: u64,
}

/// An interrupt that takes all of a stretch.
pub const WHOLE_SHARE: u32 = 1 << 16;

/// How many stretches a CPU remembers. A wait that reaches further back is `Cause::Unknown` there.
pub const STRETCHES: usize = 128;
/// How many debts a CPU keeps to itself before they go into the map.
pub const DEBTS: usize = 64;
/// How many more may be on their way into it.
pub const LEAVING: usize = 128;

/// A wait that is being divided. It lies in the map because the verifier keeps track of what is in registers
/// and on the stack, and would go every way through every stretch.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Division {
    /// The slot that the wait was charged to.
    pub slot: u64,
    /// The cgroup that waits, as an occupant.
    pub victim: u64,
    /// What is still to be divided, by the run queue's clock.
    pub from: u64,
    pub to: u64,
    /// What of it comes before the victim's group was throttled, to be divided after the rest.
    pub earlier_from: u64,
    pub earlier_to: u64,
    /// The same of the throttling before that one.
    pub earliest_from: u64,
    pub earliest_to: u64,
    /// By cause; at [`UNPLACED`] what of `Cause::Unknown` found no place among the debts.
    pub parts: [u64; PARTS],
}

/// A power of two, so that a number is easily kept within.
pub const PARTS: usize = 8;
/// The place behind those of causes.
pub const UNPLACED: u32 = 7;
const _: () = assert!(UNPLACED as usize == Cause::ALL.len());

/// One CPU's.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Timeline {
    /// The number of the last stretch: its place modulo `STRETCHES`.
    pub last: u32,
    /// While it is not 0, the debts are being moved into the map and must be left alone.
    pub settling: u32,
    /// Not 0 since a flush found this CPU idle, until something runs on it again or is divided here: then
    /// there is nothing to flush.
    pub asleep: u64,
    /// How long interrupts have taken so far, and how much of that was noted in a stretch.
    pub interrupted: u64,
    pub interrupted_noted: u64,
    /// Since when a softirq or an interrupt is at work; 0 if none is, [`UNMEASURED`] for a softirq that is
    /// not measured.
    pub softirq_since: u64,
    pub interrupt_since: u64,
    /// How many softirqs there were; of 2^n of them one is measured, for all. When the last one was.
    pub softirqs: u64,
    pub softirq_share: u64,
    pub softirq_measured: u64,
    /// A group whose throttling is being ended by this CPU; 0 if there is none. Since when it was throttled,
    /// and how many threads it held up.
    pub released_group: u64,
    pub released_since: u64,
    pub released_threads: u64,
    /// What has to be added to the run queue's clock to get `CLOCK_MONOTONIC`, modulo 2^64; and when that was
    /// found, by the former.
    pub clock_offset: u64,
    pub clock_compared: u64,
    /// How many bookings went to `slot::UNKNOWN` without a look at the slots, as none was free; and how
    /// many of them are in the losses, to which they are added with the debts.
    pub unplaced: u64,
    pub unplaced_told: u64,
    pub division: Division,
    pub stretches: [Stretch; STRETCHES],
    /// By a hash of the debtor.
    pub debts: [Debt; DEBTS],
    /// Debts that had to make room for others, by their numbers modulo `LEAVING`: those from `left` to
    /// `leaving`.
    pub leaving: u32,
    pub left: u32,
    pub on_their_way: [Debt; LEAVING],
}

const _: () = assert!(STRETCHES.is_power_of_two() && DEBTS.is_power_of_two() && LEAVING.is_power_of_two());
const _: () = assert!(PARTS > Cause::ALL.len() && PARTS.is_power_of_two());
const _: () = assert!(size_of::<Timeline>() == 264 + 32 * STRETCHES + 24 * (DEBTS + LEAVING));
