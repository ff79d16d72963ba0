//! Storage that lies with tasks and sockets: how much of it the agent allows, and how much was made. One
//! array of three words for each object that makes storage.

/// How many values may have been made in all since the object was loaded. The agent writes it.
pub const GRANTED: u32 = 0;
/// How many were. Programs add to it atomically, as to the next.
pub const MADE: u32 = 1;
/// How many were not, because no more was granted.
pub const REFUSED: u32 = 2;
pub const WORDS: usize = 3;
