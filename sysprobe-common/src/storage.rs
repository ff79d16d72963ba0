//! The budget of task and socket storage: how much the agent allows, and how much was created. Each object
//! that creates storage has one array of three words.

/// The number of values that may be created in all since the object was loaded. Written by the agent.
pub const GRANTED: u32 = 0;
/// The number of created values. Programs add to it and to `REFUSED` atomically.
pub const MADE: u32 = 1;
/// The number of refused values, because the grant was used up.
pub const REFUSED: u32 = 2;
pub const WORDS: usize = 3;
