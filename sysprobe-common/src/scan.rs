//! How an iterator, a program that runs for every object of a kind, ends a part of a scan.
//!
//! The kernel walks objects for as long as a `read` of the iterator's file lasts, and the read lasts until
//! its buffer is full. The program fills the buffer when the part has taken long enough, however much time an
//! object takes.

/// Size of the buffer: the program writes one byte at the first object of a part, and one when the part has
/// to end.
pub const BUFFER: usize = 2;

/// How long a part visits objects. A read may take ten times as long: the rest is for skipping objects that
/// were already seen. The time that the kernel takes to find the next object is not limited.
pub const PART_NS: u64 = 500_000;
