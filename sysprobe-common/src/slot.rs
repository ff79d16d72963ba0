//! Slots: the small integers that stand for cgroups in every per-cgroup map.
//!
//! A program turns a cgroup id into a slot once per task and keeps it, so the hot path indexes an array
//! instead of hashing. Programs take free slots from a stack that the agent fills. Only the agent takes back
//! the slot of a cgroup.

/// The slot of everything whose cgroup could not be read or no longer exists, or whose look-up failed.
pub const UNKNOWN: u32 = 0;
/// The slot of all cgroups for which no slot was free.
pub const NONE_FREE: u32 = 1;
/// The slot of kernel threads in the root cgroup. A kernel thread in another cgroup (a vhost worker) is
/// charged to that one.
pub const KERNEL: u32 = 2;
/// The lowest slot that is on the stack.
pub const FIRST_FREE: u32 = 3;

/// Whether a slot is shared by cgroups that are not told apart.
#[must_use]
pub const fn is_nameless(slot: u32) -> bool {
    slot <= NONE_FREE
}

/// The state of the stack, kept in words of a map beside it, because the stack's lock is shared by all CPUs.
pub mod room {
    /// A number that grows whenever a task may have another slot than before: a slot or an entry of the map
    /// of slots has become free, a slot was found after the stack had been found empty, or, where programs
    /// note that, a task was moved to another cgroup. The agent and programs add to it.
    pub const CHANGES: u32 = 0;
    /// `CHANGES` plus 1 when the stack was last found empty; 0 if it never was.
    pub const EXHAUSTED: u32 = 1;
    pub const WORDS: u32 = 2;
}
