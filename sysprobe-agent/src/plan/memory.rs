//! What the maps will take of the kernel's memory, known before anything is loaded.

use schemars::JsonSchema;
use serde::Serialize;
use sysprobe_common::block::{self, BlockLoss, BlockStats};
use sysprobe_common::cgroup::RING_BYTES;
use sysprobe_common::net::{self, DropStats, NetLoss, NetStats};
use sysprobe_common::reclaim::{self, ReclaimLoss, ReclaimStats};
use sysprobe_common::rxpath::{self, Protocol, RxpathLoss, RxpathStats, Unread, slow};
use sysprobe_common::sched::slices::StoredTask;
use sysprobe_common::sched::threads::Threads;
use sysprobe_common::sched::throttle::{Hold, ThrottleStats, holds};
use sysprobe_common::sched::timeline::DEBTS_IN_MAP;
use sysprobe_common::sched::{Debtor, HashedTask, SchedLoss, SchedStats, Timeline};
use sysprobe_common::tcp::{Socket, Sockets, TcpLoss, TcpStats};
use sysprobe_common::vfs::syscall::TABLE;
use sysprobe_common::vfs::{Call, VfsLoss, VfsStats};

use super::{Plan, Shards};
use crate::block::IN_FLIGHT;
use crate::probe::{self, Tier};
use crate::reclaim::AT_ONCE;
use crate::rxpath::ARRIVAL_BITS;

/// One map's size.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct MapMemory {
    pub domain: &'static str,
    pub map: &'static str,
    /// That it has room for.
    pub entries: u32,
    /// As the kernel accounts it (`memlock` in `/proc/PID/fdinfo`), within a page per map.
    pub bytes: u64,
}

/// The head of a preallocated hash entry: `struct htab_elem`.
const HASH_ELEMENT: u64 = 48;
/// One bucket head of a hash: a list head and a lock.
const HASH_BUCKET: u64 = 16;
/// Positions and headers of a ring buffer beside its data, in pages of 4 KiB.
const RING_OVERHEAD: u64 = 3 * 4096;
/// A task's list of what is stored with it, and the head of an element, before the kernel's allocator rounds them.
const STORAGE_LIST: u64 = 192;
const STORAGE_ELEMENT: u64 = 64;

/// The numbers of system calls.
const SYSCALLS: u32 = 512;
const _: () = assert!(SYSCALLS as usize == TABLE);

/// The maps of those domains for which `tier` knows one.
pub(super) fn of_maps(plan: &Plan, tier: impl Fn(&str) -> Option<Tier>) -> Vec<MapMemory> {
    let mut maps = Vec::new();
    if tier("cgroup").is_some() {
        maps.push(map("cgroup", "CGROUP_EVENTS", RING_BYTES, u64::from(RING_BYTES) + RING_OVERHEAD));
    }
    if let Some(sched) = tier("sched") {
        maps.extend(sched_maps(plan.slots, plan.shards, plan.cpus));
        maps.push(if probe::keeps_tasks_in_hash(sched) {
            map("sched", "SCHED_TASKS", plan.tasks, hash_bytes(plan.tasks, size_of::<HashedTask>()))
        } else {
            map("sched", "SCHED_TASKS", plan.threads, storage_bytes::<StoredTask>(plan.threads))
        });
    }
    if let Some(vfs) = tier("vfs") {
        maps.extend(vfs_maps(plan.slots));
        maps.push(if probe::keeps_tasks_in_hash(vfs) {
            map("vfs", "VFS_CALLS", plan.tasks, hash_bytes(plan.tasks, size_of::<Call>()))
        } else {
            map("vfs", "VFS_TASKS", plan.threads, storage_bytes::<Call>(plan.threads))
        });
    }
    if tier("block").is_some() {
        maps.extend(block_maps(plan.slots));
    }
    if let Some(tcp) = tier("tcp") {
        maps.extend(tcp_maps(plan.slots));
        maps.push(if probe::keeps_tasks_in_hash(tcp) {
            map("tcp", "TCP_SOCKETS", plan.tasks, hash_bytes(plan.tasks, size_of::<Socket>()))
        } else {
            map("tcp", "TCP_CENSUS", plan.slots, u64::from(plan.slots) * size_of::<Sockets>() as u64)
        });
    }
    if let Some(net) = tier("net") {
        maps.extend(net_maps(plan.slots));
        if net == Tier::Kprobe {
            maps.push(map("net", "NET_CALLS", plan.tasks, hash_bytes(plan.tasks, size_of::<net::Call>())));
        }
    }
    if let Some(rxpath) = tier("rxpath") {
        maps.extend(rxpath_maps(plan.slots));
        if probe::keeps_tasks_in_hash(rxpath) {
            let bytes = hash_bytes(plan.tasks, size_of::<Unread>());
            maps.push(map("rxpath", "RXPATH_SOCKETS", plan.tasks, bytes));
        }
    }
    if tier("reclaim").is_some() {
        maps.extend(reclaim_maps(plan.slots));
    }
    maps
}

fn sched_maps(slots: u32, shards: Shards, cpus: u32) -> [MapMemory; 11] {
    let elements = slots * shards.count();
    [
        map("sched", "SCHED_STATS", elements, u64::from(elements) * size_of::<SchedStats>() as u64),
        map("sched", "SCHED_SLOTS", slots, slots_bytes::<u64>(slots)),
        map("sched", "SCHED_FREE", slots, u64::from(slots) * 4),
        map("sched", "SCHED_TIMELINES", cpus, u64::from(cpus) * size_of::<Timeline>() as u64),
        map("sched", "SCHED_THROTTLES", slots, u64::from(slots) * size_of::<ThrottleStats>() as u64),
        map("sched", "SCHED_THR_SLOTS", slots, slots_bytes::<u64>(slots)),
        map("sched", "SCHED_THR_FREE", slots, u64::from(slots) * 4),
        map("sched", "SCHED_HOLDS", holds(cpus), hash_bytes(holds(cpus), size_of::<Hold>())),
        map("sched", "SCHED_DEBTS", DEBTS_IN_MAP, slots_bytes::<Debtor>(DEBTS_IN_MAP)),
        map("sched", "SCHED_CENSUS", slots, u64::from(slots) * size_of::<Threads>() as u64),
        map("sched", "SCHED_LOSSES", SchedLoss::COUNT, 4096),
    ]
}

fn vfs_maps(slots: u32) -> [MapMemory; 5] {
    [
        map("vfs", "VFS_STATS", slots, u64::from(slots) * size_of::<VfsStats>() as u64),
        map("vfs", "VFS_SLOTS", slots, slots_bytes::<u64>(slots)),
        map("vfs", "VFS_FREE", slots, u64::from(slots) * 4),
        map("vfs", "VFS_LOSSES", VfsLoss::COUNT, 4096),
        map("vfs", "VFS_SYSCALLS", SYSCALLS, u64::from(SYSCALLS) * 8),
    ]
}

fn block_maps(slots: u32) -> [MapMemory; 5] {
    [
        map("block", "BLOCK_STATS", slots, u64::from(slots) * size_of::<BlockStats>() as u64),
        map("block", "BLOCK_SLOTS", slots, slots_bytes::<block::Key>(slots)),
        map("block", "BLOCK_FREE", slots, u64::from(slots) * 4),
        map("block", "BLOCK_IN_FLIGHT", IN_FLIGHT, hash_bytes(IN_FLIGHT, size_of::<block::Request>())),
        map("block", "BLOCK_LOSSES", BlockLoss::COUNT, 4096),
    ]
}

/// Beside these, each socket's own storage where there is no hash: the kernel accounts it to the socket.
fn tcp_maps(slots: u32) -> [MapMemory; 4] {
    [
        map("tcp", "TCP_STATS", slots, u64::from(slots) * size_of::<TcpStats>() as u64),
        map("tcp", "TCP_SLOTS", slots, slots_bytes::<u64>(slots)),
        map("tcp", "TCP_FREE", slots, u64::from(slots) * 4),
        map("tcp", "TCP_LOSSES", TcpLoss::COUNT, 4096),
    ]
}

/// Beside these, each socket's own storage.
fn net_maps(slots: u32) -> [MapMemory; 7] {
    [
        map("net", "NET_STATS", slots, u64::from(slots) * size_of::<NetStats>() as u64),
        map("net", "NET_SLOTS", slots, slots_bytes::<u64>(slots)),
        map("net", "NET_FREE", slots, u64::from(slots) * 4),
        map("net", "NET_DROPS", slots, u64::from(slots) * size_of::<DropStats>() as u64),
        map("net", "NET_DROP_SLOTS", slots, slots_bytes::<net::DropKey>(slots)),
        map("net", "NET_DROP_FREE", slots, u64::from(slots) * 4),
        map("net", "NET_LOSSES", NetLoss::COUNT, 4096),
    ]
}

/// Beside these, each socket's own storage where there is no hash.
fn rxpath_maps(slots: u32) -> [MapMemory; 9] {
    let arrivals = 1 << ARRIVAL_BITS;
    [
        map("rxpath", "RXPATH_STATS", slots, u64::from(slots) * size_of::<RxpathStats>() as u64),
        map("rxpath", "RXPATH_SLOTS", slots, slots_bytes::<rxpath::Key>(slots)),
        map("rxpath", "RXPATH_FREE", slots, u64::from(slots) * 4),
        map("rxpath", "RXPATH_ARRIVALS", arrivals, u64::from(arrivals) * 8),
        map("rxpath", "RXPATH_IP", arrivals, u64::from(arrivals) * 8),
        map("rxpath", "RXPATH_POINTS", Protocol::COUNT, 4096),
        map("rxpath", "RXPATH_SLOW_FROM", 1, 4096),
        map("rxpath", "RXPATH_SLOW", slow::RING_BYTES, u64::from(slow::RING_BYTES) + RING_OVERHEAD),
        map("rxpath", "RXPATH_LOSSES", RxpathLoss::COUNT, 4096),
    ]
}

fn reclaim_maps(slots: u32) -> [MapMemory; 5] {
    [
        map("reclaim", "RECLAIM_STATS", slots, u64::from(slots) * size_of::<ReclaimStats>() as u64),
        map("reclaim", "RECLAIM_SLOTS", slots, slots_bytes::<u64>(slots)),
        map("reclaim", "RECLAIM_FREE", slots, u64::from(slots) * 4),
        map("reclaim", "RECLAIM_BEGUN", AT_ONCE, hash_bytes(AT_ONCE, size_of::<reclaim::Begun>())),
        map("reclaim", "RECLAIM_LOSSES", ReclaimLoss::COUNT, 4096),
    ]
}

/// Of the map from keys to slots, whose numbers take eight bytes there.
fn slots_bytes<K>(slots: u32) -> u64 {
    hash_bytes(slots, size_of::<K>() - 8 + size_of::<u64>())
}

/// Of task storage. An estimate: the kernel accounts it to nobody.
fn storage_bytes<T>(tasks: u32) -> u64 {
    u64::from(tasks) * (STORAGE_LIST + (STORAGE_ELEMENT + size_of::<T>() as u64).next_power_of_two())
}

/// Of a preallocated hash with keys of eight bytes and values that are rounded up to it.
fn hash_bytes(entries: u32, value: usize) -> u64 {
    u64::from(entries) * (HASH_ELEMENT + 8 + value as u64)
        + u64::from(entries.next_power_of_two()) * HASH_BUCKET
}

const fn map(domain: &'static str, map: &'static str, entries: u32, bytes: u64) -> MapMemory {
    MapMemory { domain, map, entries, bytes }
}
