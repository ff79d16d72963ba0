//! Direct reclaim: what is kept per cgroup of tasks that have to free memory themselves, what is remembered
//! of a task meanwhile, and the ways a number can be lost.

/// Why a task has to free memory. The kernel does not start one within the other, and if it ever does, the
/// outer one counts.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The machine has too little.
    Machine = 0,
    /// A cgroup on the way up to the root has reached its limit.
    Limit = 1,
}

/// What a slot holds. Both are added to atomically.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReclaimStats {
    pub took_ns: u64,
    pub reclaims: u64,
}

impl ReclaimStats {
    pub const ZERO: Self = Self { took_ns: 0, reclaims: 0 };
}

/// What is remembered of a task that is at it.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begun {
    /// In `CLOCK_MONOTONIC`.
    pub at: u64,
    /// A [`Kind`].
    pub kind: u32,
    /// How many of the other kind have begun since, and were taken for parts of this one.
    pub within: u32,
}

const _: () = assert!(size_of::<Begun>() == 16);

/// Why a number was lost or could not be attributed. One counter each, shared by all CPUs.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReclaimLoss {
    /// An end whose beginning was not remembered: it is older than the agent, or there was no room,
    /// or the kernel left the program out.
    BeginMissed = 0,
    /// A task that was at it began again, so an end was not seen; and all that was taken for parts
    /// of what had not ended. Also an entry whose end was not seen and that the agent removed.
    EndMissed = 1,
    /// The table of reclaims in progress was full: this one was not remembered.
    NoMemory = 2,
    /// No free slot: charged to `unknown`.
    NoFreeSlot = 3,
    /// A member on the way from the task to its cgroup could not be read: charged to `unknown`.
    UnreadableCgroup = 4,
    /// It ended before it began: booked with no time at all.
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
