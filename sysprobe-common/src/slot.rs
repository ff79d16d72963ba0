//! Slots: the small integers that stand for cgroups in every per-cgroup map.
//!
//! A program turns a cgroup id into a slot once per task and keeps it, so the hot path indexes an array
//! instead of hashing. Slots are handed out by the kernel side, which pops them from a stack that the agent
//! fills, and are taken back by the agent alone.

/// What cannot be attributed: no free slot was left, or the cgroup could not be read.
pub const UNKNOWN: u32 = 0;
/// Kernel threads that live in the root cgroup. One that was moved into another cgroup (a vhost worker)
/// belongs there.
pub const KERNEL: u32 = 1;
/// The first slot that the stack hands out.
pub const FIRST_FREE: u32 = 2;

/// What is known of the stack without touching it, for its lock is shared by all CPUs: words of a map beside
/// it.
pub mod room {
    /// How many slots the agent has given back. Written by the agent only.
    pub const FREED: u32 = 0;
    /// How many slots programs have given back, because another CPU was first. Written by programs only.
    pub const RETURNED: u32 = 1;
    /// One more than the sum of the two was when the stack was last found empty; 0 if it never was.
    pub const EXHAUSTED: u32 = 2;
    pub const WORDS: u32 = 3;
}
