//! How the CPUs share the memory of a slot.

use serde::Serialize;

/// More CPUs than this share shards, and then add atomically. It bounds the maps on large machines; neighbours share,
/// which are threads of a core or cores of one cache.
const MAX_SHARDS: u32 = 16;

/// A CPU's shard of a slot is element `slot << bits | cpu >> cpu_shift`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Shards {
    pub bits: u32,
    pub cpu_shift: u32,
}

impl Shards {
    #[must_use]
    pub const fn for_cpus(possible: u32) -> Self {
        let last = possible.saturating_sub(1);
        let mut cpu_shift = 0;
        while last >> cpu_shift >= MAX_SHARDS {
            cpu_shift += 1;
        }
        Self { bits: u32::BITS - (last >> cpu_shift).leading_zeros(), cpu_shift }
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
    fn every_cpu_has_a_shard_and_none_is_beyond_the_last() {
        for possible in 1..=4096 {
            let shards = Shards::for_cpus(possible);
            assert!(shards.count() <= MAX_SHARDS, "{possible} CPUs");
            assert!((possible - 1) >> shards.cpu_shift < shards.count(), "{possible} CPUs");
        }
    }

    #[test]
    fn small_machines_share_nothing() {
        assert_eq!(Shards::for_cpus(1), Shards { bits: 0, cpu_shift: 0 });
        assert_eq!(Shards::for_cpus(2), Shards { bits: 1, cpu_shift: 0 });
        assert_eq!(Shards::for_cpus(16), Shards { bits: 4, cpu_shift: 0 });
        assert_eq!(Shards::for_cpus(64), Shards { bits: 4, cpu_shift: 2 });
    }
}
