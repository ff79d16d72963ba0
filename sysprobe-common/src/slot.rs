//! Slots: the small integers that stand for cgroups in every per-cgroup map.
//!
//! A program turns a cgroup id into a slot once per task and keeps it, so the hot path indexes an array
//! instead of hashing. Programs take free slots from a stack that the agent fills. Only the agent takes back
//! the slot of a cgroup.

/// The slot of everything that cannot be attributed: no free slot was left, or the cgroup could not be read.
pub const UNKNOWN: u32 = 0;
/// The slot of kernel threads in the root cgroup. A kernel thread in another cgroup (a vhost worker) is
/// charged to that one.
pub const KERNEL: u32 = 1;
/// The lowest slot that is on the stack.
pub const FIRST_FREE: u32 = 2;

/// The state of the stack, kept in words of a map beside it, because the stack's lock is shared by all CPUs.
pub mod room {
    /// How many slots the agent has given back. Written by the agent only.
    pub const FREED: u32 = 0;
    /// How many slots programs have given back, because another CPU was first. Written by programs only.
    pub const RETURNED: u32 = 1;
    /// The sum of the two plus 1 when the stack was last found empty; 0 if it never was.
    pub const EXHAUSTED: u32 = 2;
    pub const WORDS: u32 = 3;
}
