//! The sizes of the maps, and the kernel memory that they will take, computed before anything is loaded.

use schemars::JsonSchema;
use serde::Serialize;
use sysprobe_common::slot;

use super::{Plan, Sizes};
use crate::probe::{self, AttachMode, EntryCount, MapKind, MapSpec, PROBES, ProgramSet};
use crate::storage::Holder;

/// Planned size of one BPF map.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct MapMemory {
    /// Domain that the map belongs to.
    pub domain: &'static str,
    /// Name of the map.
    pub map: &'static str,
    /// Maximum number of entries; for a ring buffer, its size in bytes.
    pub entries: u32,
    /// Kernel memory in bytes, as the kernel accounts it (`memlock` in `/proc/PID/fdinfo`), accurate to two
    /// pages. For task and socket storage, the most that the current tasks or sockets can use.
    pub bytes: u64,
}

/// Bytes of a page. An array that user space maps takes whole pages.
const PAGE: u64 = 4096;
/// The head of a preallocated hash entry: `struct htab_elem`.
const HASH_ELEMENT: u64 = 48;
/// One bucket head of a hash: a list head and a lock.
const HASH_BUCKET: u64 = 16;
/// Positions and headers of a ring buffer beside its data: three pages.
const RING_OVERHEAD: u64 = 3 * PAGE;

/// The maps of the domains for which `mode` returns an attach mode.
pub(super) fn of_maps(plan: &Plan, mode: impl Fn(&str) -> Option<AttachMode>) -> Vec<MapMemory> {
    let sets = PROBES.iter().filter_map(|probe| {
        let set = probe::program_set(probe.domain, mode(probe.domain)?)?;
        Some((probe.domain, set))
    });
    let of_map = |domain, map: &MapSpec| MapMemory {
        domain,
        map: map.name,
        entries: plan.entries(map.entries),
        bytes: plan.bytes(map),
    };
    sets.flat_map(|(domain, set)| set.maps().map(move |map| of_map(domain, map))).collect()
}

impl Plan {
    /// The maps of these programs whose size depends on the plan, and their numbers of entries.
    #[must_use]
    pub fn map_sizes(&self, set: &ProgramSet) -> Vec<(&'static str, u32)> {
        let sized = set.maps().filter(|map| map.is_sized_by_the_plan());
        sized.map(|map| (map.name, self.entries(map.entries))).collect()
    }

    /// This plan with the smallest maps with which programs can be loaded. `maps` stays as it is.
    #[must_use]
    pub fn smallest(&self) -> Self {
        // The reserved slots.
        let slots = slot::FIRST_FREE;
        let sizes = Sizes {
            block: slots,
            drops: slots,
            interference: 1,
            throttles: 1,
            requests: 1,
            reclaims: 1,
            packets: 1,
            budget_bytes: self.sizes.budget_bytes,
            reasons: Vec::new(),
        };
        Self { slots, tasks: 1, sizes, ..self.clone() }
    }

    const fn entries(&self, entries: EntryCount) -> u32 {
        match entries {
            EntryCount::Fixed(entries) => entries,
            EntryCount::Slots => self.slots,
            EntryCount::SlotShards => self.slots * self.cpu_shards.shards.count,
            EntryCount::Devices => self.sizes.block,
            EntryCount::Drops => self.sizes.drops,
            EntryCount::Interference => self.sizes.interference,
            EntryCount::Throttles => self.sizes.throttles,
            EntryCount::Requests => self.sizes.requests,
            EntryCount::Reclaims => self.sizes.reclaims,
            EntryCount::Packets => self.sizes.packets,
            EntryCount::Cpus => self.cpus,
            EntryCount::Tracked => self.tasks,
            EntryCount::Threads => self.threads,
            EntryCount::Sockets => self.sockets,
        }
    }

    /// Bytes of a map. For storage, they are the most that the existing tasks or sockets may store; the
    /// kernel accounts them to no map.
    fn bytes(&self, map: &MapSpec) -> u64 {
        let (entries, cpus) = (u64::from(self.entries(map.entries)), u64::from(self.cpus));
        let values = entries * rounded(map.value);
        match map.kind {
            MapKind::Array => values,
            MapKind::MappedArray => values.next_multiple_of(PAGE),
            MapKind::PerCpuArray => values * cpus,
            MapKind::Stack => entries * map.value as u64,
            // It has a spare element for each possible CPU.
            MapKind::Hash => (entries + cpus) * hash_element(map.key, map.value) + buckets(entries),
            MapKind::LruHash => entries * hash_element(map.key, map.value) + buckets(entries),
            MapKind::RingBuffer => entries + RING_OVERHEAD,
            MapKind::TaskStorage => entries * self.storage.bytes_of(Holder::Task, map.value),
            MapKind::SocketStorage => entries * self.storage.bytes_of(Holder::Socket, map.value),
        }
    }
}

/// Bytes of an entry of a hash with keys of type `K`, and of its bucket.
pub(super) const fn hash_entry<K, V>() -> u64 {
    hash_element(size_of::<K>(), size_of::<V>()) + HASH_BUCKET
}

const fn hash_element(key: usize, value: usize) -> u64 {
    HASH_ELEMENT + rounded(key) + rounded(value)
}

const fn buckets(entries: u64) -> u64 {
    entries.next_power_of_two() * HASH_BUCKET
}

/// The kernel rounds keys and values up to words.
const fn rounded(bytes: usize) -> u64 {
    bytes.next_multiple_of(8) as u64
}
