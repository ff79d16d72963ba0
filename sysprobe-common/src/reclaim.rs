//! Direct reclaim: statistics per cgroup, the record of a reclaiming task, and reasons why a number may be
//! lost.

/// Why a task has to free memory. The kernel does not nest the two kinds; if it ever does, the outer one
/// counts.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The machine is short of memory.
    Machine = 0,
    /// A cgroup has reached its memory limit.
    Limit = 1,
}

/// The statistics of one slot. Both members are added to atomically.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReclaimStats {
    pub took_ns: u64,
    pub reclaims: u64,
}

impl ReclaimStats {
    pub const ZERO: Self = Self { took_ns: 0, reclaims: 0 };
}

const _: () = assert!(size_of::<ReclaimStats>() == 16);

/// The record of a reclaiming task.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begun {
    /// When the reclaim began, in `CLOCK_MONOTONIC`.
    pub at: u64,
    /// A [`Kind`].
    pub kind: u32,
    /// Reclaims of the other kind that have begun since. They count as parts of this one.
    pub within: u32,
}

const _: () = assert!(size_of::<Begun>() == 16);

/// Why a number was lost or could not be attributed. One counter each, in lanes.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReclaimLoss {
    /// A reclaim ended whose beginning was not recorded: it is older than the agent, the table was full, or
    /// the kernel skipped a run of the program.
    BeginMissed = 0,
    /// A reclaiming task began another reclaim of the same kind, so an end was missed. Reclaims that were
    /// taken for parts of the unfinished one count as well. So do entries that the agent removed because
    /// their end was missed.
    EndMissed = 1,
    /// The table of reclaims in progress was full, so this one was not recorded.
    NoMemory = 2,
    /// No free slot: charged to `unknown`.
    NoFreeSlot = 3,
    /// A kernel structure between the task and its cgroup could not be read: charged to `unknown`.
    UnreadableCgroup = 4,
    /// The reclaim ended before it began. It is counted with a duration of 0.
    BackwardsClock = 5,
}

impl ReclaimLoss {
    pub const COUNT: u32 = 6;
    pub const ALL: [Self; Self::COUNT as usize] = [
        Self::BeginMissed,
        Self::EndMissed,
        Self::NoMemory,
        Self::NoFreeSlot,
        Self::UnreadableCgroup,
        Self::BackwardsClock,
    ];

    /// The value of the `reason` label.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::BeginMissed => "begin_missed",
            Self::EndMissed => "end_missed",
            Self::NoMemory => "no_memory",
            Self::NoFreeSlot => "no_free_slot",
            Self::UnreadableCgroup => "unreadable_cgroup",
            Self::BackwardsClock => "backwards_clock",
        }
    }
}
