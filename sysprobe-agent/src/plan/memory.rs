//! What the maps will take of the kernel's memory, known before anything is loaded.

use serde::Serialize;
use sysprobe_common::cgroup::PATH_MAX;
use sysprobe_common::sched::{SchedLoss, SchedStats};

use super::{DomainPlan, Shards};

/// One map's size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MapMemory {
    pub domain: &'static str,
    pub map: &'static str,
    pub entries: u32,
    /// As the kernel accounts it (`memlock` in `/proc/PID/fdinfo`), within a page per map.
    pub bytes: u64,
}

/// A preallocated hash entry: `struct htab_elem` (48 bytes), then key and value, each rounded up to eight.
const HASH_ELEMENT: u64 = 48 + 8 + 8;
/// One bucket head of a hash: a list head and a lock.
const HASH_BUCKET: u64 = 16;
/// Positions and headers of a ring buffer beside its data, in pages of 4 KiB.
const RING_OVERHEAD: u64 = 3 * 4096;
pub(super) const RING_BYTES: u32 = 512 * 1024;

pub(super) fn of_maps(domains: &[DomainPlan], slots: u32, shards: Shards, cpus: u32) -> Vec<MapMemory> {
    let on = |name: &str| domains.iter().any(|domain| domain.name == name && domain.is_on());
    let mut maps = Vec::new();
    if on("cgroup") {
        maps.extend(cgroup_maps(cpus));
    }
    if on("sched") {
        maps.extend(sched_maps(slots, shards));
    }
    maps
}

fn cgroup_maps(cpus: u32) -> [MapMemory; 2] {
    let scratch = u64::from(PATH_MAX + 16) * u64::from(cpus);
    [
        map("cgroup", "CGROUP_EVENTS", RING_BYTES, u64::from(RING_BYTES) + RING_OVERHEAD),
        map("cgroup", "CGROUP_SCRATCH", 1, scratch),
    ]
}

fn sched_maps(slots: u32, shards: Shards) -> [MapMemory; 4] {
    let elements = slots * shards.count();
    let buckets = u64::from(slots.next_power_of_two());
    [
        map("sched", "SCHED_STATS", elements, u64::from(elements) * size_of::<SchedStats>() as u64),
        map("sched", "SCHED_SLOTS", slots, u64::from(slots) * HASH_ELEMENT + buckets * HASH_BUCKET),
        map("sched", "SCHED_FREE", slots, u64::from(slots) * 4),
        map("sched", "SCHED_LOSSES", SchedLoss::COUNT, 4096),
    ]
}

const fn map(domain: &'static str, map: &'static str, entries: u32, bytes: u64) -> MapMemory {
    MapMemory { domain, map, entries, bytes }
}
