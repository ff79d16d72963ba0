//! Scans: how a program that runs for every object of a kind (an iterator) ends a part of a pass.
//!
//! The kernel walks objects for as long as a `read` of the iterator's file lasts, and the read lasts until
//! its buffer is full. The program fills the buffer when the part has taken long enough, however much time an
//! object takes.

/// Size of the buffer: the program writes one byte at a part's first object, and one at its last.
pub const BUFFER: usize = 2;

/// Duration of a part, apart from the time that the kernel takes to find its first object. It is a tenth of
/// what a task that becomes runnable meanwhile may wait.
pub const PART_NS: u64 = 500_000;

/// The scans of an object. At most one pass of each runs at a time.
#[derive(Clone, Copy, Debug)]
#[repr(u32)]
pub enum Scan {
    /// Creates the records of what is older than the agent.
    Seed,
    /// Counts all.
    Count,
}

impl Scan {
    /// The number of scans.
    pub const ALL: u32 = 2;
}
