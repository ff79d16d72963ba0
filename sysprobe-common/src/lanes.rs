//! Counters of losses and of other events, which programs on all CPUs add to. An event may be as frequent as
//! a context switch, and CPUs that add to the same cache line wait for one another. So each CPU adds to one
//! of several lanes, and the agent sums the lanes.

/// CPUs whose numbers differ by a multiple of this share a lane.
pub const LANES: u32 = 32;
/// The counters of a lane: two cache lines of 64 bytes.
pub const WORDS: u32 = 16;
/// All lanes together are one page.
pub const ENTRIES: usize = (LANES * WORDS) as usize;

/// Where a CPU adds to a counter.
#[must_use]
pub const fn place(cpu: u32, number: u32) -> u32 {
    cpu % LANES * WORDS + number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_different_lanes_never_share_a_place() {
        let places = (0..LANES).flat_map(|cpu| (0..WORDS).map(move |number| place(cpu, number)));
        assert!(places.eq(0..LANES * WORDS));
        assert_eq!(place(LANES + 1, 3), place(1, 3));
    }
}
