//! Slots: the small integers that stand for cgroups in every per-cgroup map.
//!
//! A program turns a cgroup id into a slot once per task and keeps it, so the hot path indexes an array instead of
//! hashing. Slots are handed out by the kernel side, which pops them from a stack that the agent fills, and are
//! taken back by the agent alone.

/// What cannot be attributed: no free slot was left, or the cgroup could not be read.
pub const UNKNOWN: u32 = 0;
/// Kernel threads that live in the root cgroup. One that was moved into another cgroup (a vhost worker) belongs there.
pub const KERNEL: u32 = 1;
/// The first slot that the stack hands out.
pub const FIRST_FREE: u32 = 2;
