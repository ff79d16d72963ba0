//! How CPUs share the counters of a slot: along the last-level caches that they have in common.

use schemars::JsonSchema;
use serde::Serialize;
use sysprobe_common::shard::{self, adding};

use crate::host::Cpus;

/// The programs' table of each CPU's shard.
pub const CPU_SHARDS: &str = "CPU_SHARDS";

/// How a slot's counters are split into shards. Shard `s` of a slot is element `slot * count + s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Shards {
    /// Number of shards per slot.
    pub count: u32,
    /// Which CPUs have to add atomically.
    pub adding: Adding,
}

/// Which CPUs have to add to their shard atomically.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Adding {
    /// No CPU has to: each has a shard of its own.
    Alone,
    /// All CPUs have to.
    Together,
    /// Only CPUs that come online after the start have to: they share one shard.
    Mixed,
}

/// Assignment of CPUs to shards of a slot's counters.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct CpuShards {
    /// Number of shards per slot, and how CPUs add to them.
    pub shards: Shards,
    /// By the CPU's number, as the programs have it: see `sysprobe_common::shard`.
    #[serde(skip)]
    bytes: Vec<u8>,
}

impl Shards {
    /// A single shard that all CPUs add to.
    pub const ONE: Self = Self { count: 1, adding: Adding::Together };

    /// The value of the programs' `CFG_ADDING`.
    #[must_use]
    pub const fn adding(self) -> u32 {
        match self.adding {
            Adding::Alone => adding::ALONE,
            Adding::Together => adding::TOGETHER,
            Adding::Mixed => adding::MIXED,
        }
    }
}

impl CpuShards {
    /// A single shard for all CPUs.
    #[must_use]
    pub fn one() -> Self {
        Self { shards: Shards::ONE, bytes: Vec::new() }
    }

    /// One shard per online CPU if there are at most `most` of them. Otherwise there are up to `most` shards,
    /// each for CPUs of one cache as long as there are no more caches than shards. CPUs that come online
    /// later share one shard and add to it atomically.
    #[must_use]
    pub fn new(cpus: &Cpus, most: u32) -> Self {
        let most = most.clamp(1, shard::MOST - 1);
        let online = u32::try_from(cpus.online.len()).unwrap_or(u32::MAX);
        let has_late = cpus.possible > online;
        let is_shared = online > most;
        let mut bytes = vec![0; cpus.possible as usize];
        let places = if is_shared { by_cache(&cpus.caches, most) } else { one_each(&cpus.online) };
        let used = places.iter().map(|(_, place)| place + 1).max().unwrap_or(1);
        let adding = match (is_shared, has_late) {
            (true, _) => Adding::Together,
            (false, true) => Adding::Mixed,
            (false, false) => Adding::Alone,
        };
        let count = if adding == Adding::Mixed { used + 1 } else { used };
        let late = shard::SHARED | byte(count - 1);
        bytes.fill(late);
        for (cpu, place) in places {
            if let Some(own) = bytes.get_mut(cpu as usize) {
                *own = byte(place) | if is_shared { shard::SHARED } else { 0 };
            }
        }
        Self { shards: Shards { count, adding }, bytes }
    }

    /// The shards of all CPUs that any kernel supports. Entries of CPUs that are not possible here are never
    /// read.
    #[must_use]
    pub fn table(&self) -> [u8; shard::CPUS] {
        let mut table = [shard::SHARED; shard::CPUS];
        for (place, byte) in table.iter_mut().zip(&self.bytes) {
            *place = *byte;
        }
        table
    }
}

fn one_each(online: &[u32]) -> Vec<(u32, u32)> {
    online.iter().copied().zip(0..).collect()
}

/// The same number of shards for each cache, assigned to its CPUs in turn. With more caches than shards,
/// neighbouring caches share one.
fn by_cache(caches: &[Vec<u32>], most: u32) -> Vec<(u32, u32)> {
    let groups = u32::try_from(caches.len()).unwrap_or(u32::MAX).max(1);
    let each = (most / groups).max(1);
    let mut places = Vec::new();
    let mut first = 0;
    for (group, cpus) in (0..groups).zip(caches) {
        if groups > most {
            first = u32::try_from(u64::from(group) * u64::from(most) / u64::from(groups)).unwrap_or(0);
        }
        let own = each.min(u32::try_from(cpus.len()).unwrap_or(u32::MAX)).max(1);
        places.extend(cpus.iter().zip(0..).map(|(cpu, number)| (*cpu, first + number % own)));
        first += own;
    }
    places
}

/// Fewer than `shard::MOST` are planned.
fn byte(place: u32) -> u8 {
    u8::try_from(place).unwrap_or(0) & !shard::SHARED
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::plan::fixture::cpus;

    const MOST: u32 = 16;

    /// All possible CPUs by shard, including those that are not online.
    fn users(cpus: &Cpus, most: u32) -> (CpuShards, BTreeMap<u8, Vec<u32>>) {
        let planned = CpuShards::new(cpus, most);
        let table = planned.table();
        let mut users = BTreeMap::<u8, Vec<u32>>::new();
        for cpu in 0..cpus.possible {
            users.entry(table[cpu as usize] & !shard::SHARED).or_default().push(cpu);
        }
        (planned, users)
    }

    #[test]
    fn no_two_cpus_add_to_a_shard_without_atomics() {
        for online in [1, 2, 3, 15, 16, 17, 64, 96, 256, 512] {
            for possible in [online, online + 1, 4 * online] {
                let cpus = Cpus { possible, ..cpus(online) };
                let (planned, users) = users(&cpus, MOST);
                let table = planned.table();
                let is_careful = |cpu: u32| match planned.shards.adding {
                    Adding::Alone => false,
                    Adding::Together => true,
                    Adding::Mixed => table[cpu as usize] & shard::SHARED != 0,
                };
                for (number, cpus) in &users {
                    assert!(u32::from(*number) < planned.shards.count, "{online} of {possible} CPUs");
                    let careful = cpus.iter().all(|cpu| is_careful(*cpu));
                    assert!(careful || cpus.len() == 1, "{online} of {possible} CPUs: {cpus:?}");
                }
            }
        }
    }

    #[test]
    fn cpus_of_different_caches_share_no_shard() {
        for online in [17, 32, 64, 96, 128] {
            let cpus = cpus(online);
            let (planned, users) = users(&cpus, MOST);
            assert!(planned.shards.count <= MOST);
            for sharing in users.values() {
                let caches: Vec<_> = cpus
                    .caches
                    .iter()
                    .filter(|cache| sharing.iter().any(|cpu| cache.contains(cpu)))
                    .collect();
                assert_eq!(caches.len(), 1, "{online} CPUs: {sharing:?} lie in {caches:?}");
            }
        }
        // 64 CPUs in eight caches: each cache has two shards of its own.
        assert_eq!(CpuShards::new(&cpus(64), MOST).shards.count, 16);
    }

    #[test]
    fn more_caches_than_shards_are_shared_by_neighbours() {
        let (planned, users) = users(&cpus(256), MOST);
        assert_eq!(planned.shards, Shards { count: 16, adding: Adding::Together });
        assert!(users.values().all(|cpus| cpus.len() == 16 && cpus[15] - cpus[0] == 15), "{users:?}");
    }

    #[test]
    fn cpus_that_are_only_possible_cost_one_shard_together() {
        let hot_add = Cpus { possible: 128, ..cpus(2) };
        assert_eq!(CpuShards::new(&hot_add, MOST).shards, Shards { count: 3, adding: Adding::Mixed });
        assert_eq!(CpuShards::new(&cpus(2), MOST).shards, Shards { count: 2, adding: Adding::Alone });
        let gap = Cpus { possible: 4, online: vec![0, 3], caches: vec![vec![0, 3]] };
        assert_eq!(CpuShards::new(&gap, MOST).table()[..4], [0, shard::SHARED | 2, shard::SHARED | 2, 1]);
    }
}
