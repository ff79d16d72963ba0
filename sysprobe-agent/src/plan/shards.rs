//! How the CPUs share the memory of a slot.

use schemars::JsonSchema;
use serde::Serialize;

/// It bounds the maps on large machines. With more CPUs than this, several share a shard and add atomically.
const MAX_SHARDS: u32 = 16;

/// A CPU's shard of a slot is element `slot << bits | cpu % count`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Shards {
    pub bits: u32,
    /// Whether a shard may belong to several CPUs.
    pub shared: bool,
}

impl Shards {
    /// For what all CPUs add to.
    pub const ONE: Self = Self { bits: 0, shared: true };

    #[must_use]
    pub const fn for_cpus(possible: u32) -> Self {
        let shards = if possible < MAX_SHARDS { possible.next_power_of_two() } else { MAX_SHARDS };
        Self { bits: shards.trailing_zeros(), shared: possible > MAX_SHARDS }
    }

    #[must_use]
    pub const fn count(self) -> u32 {
        1 << self.bits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_share_a_shard_only_where_they_are_told_to_be_careful() {
        for possible in 1..=4096 {
            let shards = Shards::for_cpus(possible);
            assert!(shards.count() <= MAX_SHARDS, "{possible} CPUs");
            assert_eq!(shards.shared, possible > shards.count(), "{possible} CPUs");
        }
    }

    #[test]
    fn small_machines_share_nothing() {
        assert_eq!(Shards::for_cpus(1), Shards { bits: 0, shared: false });
        assert_eq!(Shards::for_cpus(3), Shards { bits: 2, shared: false });
        assert_eq!(Shards::for_cpus(16), Shards { bits: 4, shared: false });
        assert_eq!(Shards::for_cpus(64), Shards { bits: 4, shared: true });
    }
}
