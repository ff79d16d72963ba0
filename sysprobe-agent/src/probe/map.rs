//! The maps of an object: what each holds, and what its number of entries depends on. The plan computes sizes
//! and memory from this, and the loader sizes the maps by the plan.

use sysprobe_common::lanes::ENTRIES;
use sysprobe_common::slot::room;

/// A map of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapSpec {
    pub name: &'static str,
    pub kind: MapKind,
    /// Bytes of a key; 0 if the kind has no keys of its own.
    pub key: usize,
    /// Bytes of a value.
    pub value: usize,
    pub entries: EntryCount,
}

/// Kind of a map, as far as it decides how much memory the map takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapKind {
    Array,
    /// An array that the agent maps into its memory.
    MappedArray,
    PerCpuArray,
    Stack,
    /// A preallocated hash.
    Hash,
    /// A hash that evicts entries when it is full.
    LruHash,
    RingBuffer,
    TaskStorage,
    SocketStorage,
}

/// What a map's number of entries depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryCount {
    /// The object has this number. For a ring buffer, it is its size in bytes.
    Fixed(u32),
    /// Slots, one for each cgroup that a domain tells apart.
    Slots,
    /// Slots times shards.
    SlotShards,
    /// Pairs of a cgroup and a block device.
    Devices,
    /// Pairs of a cgroup and a reason for which packets are dropped.
    Drops,
    /// Pairs of a waiting cgroup and a running one.
    Interference,
    /// Run queues of throttled cgroups.
    Throttles,
    /// Requests in flight.
    Requests,
    /// Tasks in direct reclaim.
    Reclaims,
    /// Packets on their way to a socket.
    Packets,
    /// Possible CPUs.
    Cpus,
    /// The configured number of tasks or sockets that a hash tracks.
    Tracked,
    /// Threads on the host. For storage, which has no size.
    Threads,
    /// Sockets on the host. For storage, which has no size.
    Sockets,
}

/// Names of the maps in which a domain counts by slot.
#[derive(Clone, Copy, Debug)]
pub struct SlotMaps {
    /// Counters, by slot.
    pub stats: &'static str,
    /// From the key of a slot to its number.
    pub known: &'static str,
    /// Stack of free slots.
    pub free: &'static str,
    /// Words of `sysprobe_common::slot::room`.
    pub room: &'static str,
}

impl SlotMaps {
    /// Maps with counters of type `S` by keys of type `K`.
    pub(super) const fn specs<S, K>(self, slots: EntryCount) -> [MapSpec; 4] {
        self.sharded_specs::<S, K>(slots, slots)
    }

    /// The same, with `stats` elements for the counters.
    pub(super) const fn sharded_specs<S, K>(self, stats: EntryCount, slots: EntryCount) -> [MapSpec; 4] {
        [
            mapped_array::<S>(self.stats, stats),
            hash::<K, u32>(self.known, slots),
            MapSpec { kind: MapKind::Stack, key: 0, ..array::<u32>(self.free, slots) },
            words(self.room, room::WORDS as usize),
        ]
    }
}

impl MapSpec {
    /// Whether it is task or socket storage, whose values belong to tasks or sockets and not to the map.
    #[must_use]
    pub const fn is_storage(&self) -> bool {
        matches!(self.kind, MapKind::TaskStorage | MapKind::SocketStorage)
    }

    /// Whether the loader has to set its size.
    #[must_use]
    pub const fn is_sized_by_the_plan(&self) -> bool {
        !matches!(self.entries, EntryCount::Fixed(_)) && !self.is_storage()
    }
}

pub(super) const fn array<V>(name: &'static str, entries: EntryCount) -> MapSpec {
    MapSpec { name, kind: MapKind::Array, key: size_of::<u32>(), value: size_of::<V>(), entries }
}

pub(super) const fn mapped_array<V>(name: &'static str, entries: EntryCount) -> MapSpec {
    MapSpec { kind: MapKind::MappedArray, ..array::<V>(name, entries) }
}

pub(super) const fn per_cpu_array<V>(name: &'static str, entries: EntryCount) -> MapSpec {
    MapSpec { kind: MapKind::PerCpuArray, ..array::<V>(name, entries) }
}

/// Counters in lanes.
pub(super) const fn counters(name: &'static str) -> MapSpec {
    words(name, ENTRIES)
}

/// A mapped array of `count` words.
#[expect(clippy::cast_possible_truncation, reason = "small constants")]
pub(super) const fn words(name: &'static str, count: usize) -> MapSpec {
    mapped_array::<u64>(name, EntryCount::Fixed(count as u32))
}

/// When the current part of a scan ends.
pub(super) const fn part_end(name: &'static str) -> MapSpec {
    array::<u64>(name, EntryCount::Fixed(1))
}

pub(super) const fn hash<K, V>(name: &'static str, entries: EntryCount) -> MapSpec {
    MapSpec { name, kind: MapKind::Hash, key: size_of::<K>(), value: size_of::<V>(), entries }
}

pub(super) const fn lru_hash<K, V>(name: &'static str, entries: EntryCount) -> MapSpec {
    MapSpec { kind: MapKind::LruHash, ..hash::<K, V>(name, entries) }
}

pub(super) const fn ring_buffer(name: &'static str, bytes: u32) -> MapSpec {
    MapSpec { name, kind: MapKind::RingBuffer, key: 0, value: 0, entries: EntryCount::Fixed(bytes) }
}

/// Task storage and its budget.
pub(super) const fn task_storage<V>(name: &'static str, budget: &'static str) -> [MapSpec; 2] {
    storage_of::<V>(name, budget, MapKind::TaskStorage, EntryCount::Threads)
}

/// Socket storage and its budget.
pub(super) const fn socket_storage<V>(name: &'static str, budget: &'static str) -> [MapSpec; 2] {
    storage_of::<V>(name, budget, MapKind::SocketStorage, EntryCount::Sockets)
}

const fn storage_of<V>(
    name: &'static str,
    budget: &'static str,
    kind: MapKind,
    entries: EntryCount,
) -> [MapSpec; 2] {
    let values = MapSpec { name, kind, key: size_of::<i32>(), value: size_of::<V>(), entries };
    [values, counters(budget)]
}

#[cfg(test)]
mod tests;
