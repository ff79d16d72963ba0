//! The budget of task and socket storage: how much the agent allows, and how much was created. Each object
//! that creates storage has counters in [`lanes`](crate::lanes) with these numbers.

use crate::lanes;

/// The number of values that may be created in all since the object was loaded. Written by the agent, in the
/// first lane.
pub const GRANTED: u32 = 0;
/// The number of created values, in the first lane: it is compared with what is granted.
pub const MADE: u32 = 1;
/// The number of refused values, because the grant was used up. Its cache line is not that of the others,
/// which all CPUs read before they create a value.
pub const REFUSED: u32 = 8;

const _: () = assert!(REFUSED < lanes::WORDS);
