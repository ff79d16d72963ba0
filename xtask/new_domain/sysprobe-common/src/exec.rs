//! Programs that tasks start: statistics per cgroup, and reasons why a number may be lost.

/// The statistics of one slot, added to atomically.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExecStats {
    pub execs: u64,
}

impl ExecStats {
    pub const ZERO: Self = Self { execs: 0 };
}

const _: () = assert!(size_of::<ExecStats>() == 8);

/// Why a number could not be attributed. One counter each, in lanes.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExecLoss {
    /// No free slot: charged to `unknown`.
    NoFreeSlot = 0,
    /// A kernel structure between the task and its cgroup could not be read: charged to `unknown`.
    UnreadableCgroup = 1,
}

impl ExecLoss {
    pub const COUNT: u32 = 2;
    pub const ALL: [Self; Self::COUNT as usize] = [Self::NoFreeSlot, Self::UnreadableCgroup];

    /// The value of the `reason` label.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::NoFreeSlot => "no_free_slot",
            Self::UnreadableCgroup => "unreadable_cgroup",
        }
    }
}
