//! The kernel memory that the maps will take, computed before anything is loaded.

use schemars::JsonSchema;
use serde::Serialize;
use sysprobe_common::block::{self, BlockLoss, BlockStats};
use sysprobe_common::cgroup::{CgroupCount, RING_BYTES};
use sysprobe_common::net::{self, DropStats, NetLoss, NetStats};
use sysprobe_common::reclaim::{self, ReclaimLoss, ReclaimStats};
use sysprobe_common::rxpath::{self, Protocol, RxpathLoss, RxpathStats, ShareWord, Unread, slow};
use sysprobe_common::sched::slices::StoredTask;
use sysprobe_common::sched::threads::Threads;
use sysprobe_common::sched::throttle::{Throttle, ThrottleStats};
use sysprobe_common::sched::{HashedTask, Pair, SchedLoss, SchedStats, Timeline};
use sysprobe_common::slot::room::WORDS;
use sysprobe_common::storage::WORDS as BUDGET;
use sysprobe_common::tcp::{LISTENERS, Socket, Sockets, TcpLoss, TcpStats};
use sysprobe_common::vfs::syscall::TABLE;
use sysprobe_common::vfs::{Call, Entered, STARTED, Started, TaskCall, VfsLoss, VfsStats};

use super::{Plan, Sizes};
use crate::probe::{self, AttachMode};
use crate::storage;

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

/// What a small array takes that user space maps.
const PAGE: u64 = 4096;
/// The head of a preallocated hash entry: `struct htab_elem`.
const HASH_ELEMENT: u64 = 48;
/// One bucket head of a hash: a list head and a lock.
const HASH_BUCKET: u64 = 16;
/// Positions and headers of a ring buffer beside its data: three pages.
const RING_OVERHEAD: u64 = 3 * PAGE;

/// The size of the table of system calls, which is indexed by their numbers.
const SYSCALLS: u32 = 512;
const _: () = assert!(SYSCALLS as usize == TABLE);

/// The maps of the domains for which `mode` returns an attach mode.
pub(super) fn of_maps(plan: &Plan, mode: impl Fn(&str) -> Option<AttachMode>) -> Vec<MapMemory> {
    let mut maps = Vec::new();
    if mode("cgroup").is_some() {
        maps.push(map("cgroup", "CGROUP_EVENTS", RING_BYTES, u64::from(RING_BYTES) + RING_OVERHEAD));
        maps.push(map("cgroup", "CGROUP_COUNTS", entries(CgroupCount::ALL.len()), PAGE));
    }
    if let Some(sched) = mode("sched") {
        maps.extend(sched_maps(plan));
        if probe::keeps_tasks_in_hash(sched) {
            let bytes = hash_bytes(plan, plan.tasks, size_of::<HashedTask>());
            maps.push(map("sched", "SCHED_TASKS", plan.tasks, bytes));
        } else {
            maps.extend(stored::<StoredTask>("sched", ["SCHED_TASKS", "SCHED_BUDGET"], plan.threads));
        }
    }
    if let Some(vfs) = mode("vfs") {
        maps.extend(vfs_maps(plan));
        if probe::keeps_tasks_in_hash(vfs) {
            maps.push(map("vfs", "VFS_CALLS", plan.tasks, hash_bytes(plan, plan.tasks, size_of::<Call>())));
        } else {
            maps.extend(stored::<TaskCall>("vfs", ["VFS_TASKS", "VFS_BUDGET"], plan.threads));
        }
    }
    if mode("block").is_some() {
        maps.extend(block_maps(plan));
    }
    if let Some(tcp) = mode("tcp") {
        maps.extend(tcp_maps(plan, tcp));
    }
    if let Some(net) = mode("net") {
        maps.extend(net_maps(plan));
        if probe::keeps_tasks_in_hash(net) {
            let calls = plan.net_calls(net);
            maps.push(map("net", "NET_CALLS", calls, hash_bytes(plan, calls, size_of::<net::Call>())));
        } else {
            maps.extend(stored::<net::Socket>("net", ["NET_SOCKETS", "NET_BUDGET"], plan.sockets));
        }
    }
    if let Some(rxpath) = mode("rxpath") {
        maps.extend(rxpath_maps(plan));
        if probe::keeps_tasks_in_hash(rxpath) {
            let bytes = hash_bytes(plan, plan.tasks, size_of::<Unread>());
            maps.push(map("rxpath", "RXPATH_SOCKETS", plan.tasks, bytes));
        } else {
            maps.extend(stored::<Unread>("rxpath", ["RXPATH_SOCKETS", "RXPATH_BUDGET"], plan.sockets));
        }
    }
    if mode("reclaim").is_some() {
        maps.extend(reclaim_maps(plan));
    }
    maps
}

fn sched_maps(plan: &Plan) -> [MapMemory; 14] {
    let (slots, cpus, elements) = (plan.slots, plan.cpus, plan.slots * plan.cpu_shards.shards.count);
    let Sizes { throttles, interference, .. } = plan.sizes;
    [
        map("sched", "SCHED_STATS", elements, u64::from(elements) * size_of::<SchedStats>() as u64),
        map("sched", "SCHED_SLOTS", slots, slots_bytes::<u64>(plan, slots)),
        map("sched", "SCHED_FREE", slots, u64::from(slots) * 4),
        map("sched", "SCHED_ROOM", WORDS, PAGE),
        map("sched", "SCHED_TIMELINES", cpus, u64::from(cpus) * size_of::<Timeline>() as u64),
        map("sched", "SCHED_THROTTLES", slots, u64::from(slots) * size_of::<ThrottleStats>() as u64),
        map("sched", "SCHED_THR_SLOTS", slots, slots_bytes::<u64>(plan, slots)),
        map("sched", "SCHED_THR_FREE", slots, u64::from(slots) * 4),
        map("sched", "SCHED_THR_ROOM", WORDS, PAGE),
        map("sched", "SCHED_THR_QUEUES", throttles, lru_bytes(throttles, size_of::<Throttle>())),
        map("sched", "SCHED_INTERFERENCE", interference, slots_bytes::<Pair>(plan, interference)),
        map("sched", "SCHED_SCAN", slots, u64::from(slots) * size_of::<Threads>() as u64),
        map("sched", "SCHED_MOVES", 1, 8),
        map("sched", "SCHED_LOSSES", SchedLoss::COUNT, PAGE),
    ]
}

fn vfs_maps(plan: &Plan) -> [MapMemory; 9] {
    let Plan { slots, cpus, .. } = *plan;
    [
        map("vfs", "VFS_STATS", slots, u64::from(slots) * size_of::<VfsStats>() as u64),
        map("vfs", "VFS_SLOTS", slots, slots_bytes::<u64>(plan, slots)),
        map("vfs", "VFS_FREE", slots, u64::from(slots) * 4),
        map("vfs", "VFS_ROOM", WORDS, PAGE),
        map("vfs", "VFS_LOSSES", VfsLoss::COUNT, PAGE),
        map("vfs", "VFS_STARTED", STARTED, hash_bytes(plan, STARTED, size_of::<Started>())),
        map("vfs", "VFS_SYSCALLS", SYSCALLS, u64::from(SYSCALLS) * 8),
        map("vfs", "VFS_ENTERED", cpus, u64::from(cpus) * size_of::<Entered>() as u64),
        map("vfs", "VFS_TURN", 1, PAGE),
    ]
}

fn block_maps(plan: &Plan) -> [MapMemory; 6] {
    let Sizes { block: slots, requests, .. } = plan.sizes;
    [
        map("block", "BLOCK_STATS", slots, u64::from(slots) * size_of::<BlockStats>() as u64),
        map("block", "BLOCK_SLOTS", slots, slots_bytes::<block::Key>(plan, slots)),
        map("block", "BLOCK_FREE", slots, u64::from(slots) * 4),
        map("block", "BLOCK_ROOM", WORDS, PAGE),
        map("block", "BLOCK_IN_FLIGHT", requests, hash_bytes(plan, requests, size_of::<block::Request>())),
        map("block", "BLOCK_LOSSES", BlockLoss::COUNT, PAGE),
    ]
}

fn tcp_maps(plan: &Plan, tcp: AttachMode) -> Vec<MapMemory> {
    let mut maps = tcp_slot_maps(plan).to_vec();
    if probe::keeps_tasks_in_hash(tcp) {
        maps.push(map("tcp", "TCP_SOCKETS", plan.tasks, hash_bytes(plan, plan.tasks, size_of::<Socket>())));
    } else {
        let bytes = u64::from(plan.slots) * size_of::<Sockets>() as u64;
        maps.push(map("tcp", "TCP_SCAN", plan.slots, bytes));
        maps.push(map("tcp", "TCP_LISTENERS", LISTENERS, hash_bytes(plan, LISTENERS, size_of::<u64>())));
        maps.extend(stored::<Socket>("tcp", ["TCP_SOCKETS", "TCP_BUDGET"], plan.sockets));
        maps.push(map("tcp", "TCP_PASS", 1, PAGE));
    }
    maps
}

fn tcp_slot_maps(plan: &Plan) -> [MapMemory; 5] {
    let slots = plan.slots;
    [
        map("tcp", "TCP_STATS", slots, u64::from(slots) * size_of::<TcpStats>() as u64),
        map("tcp", "TCP_SLOTS", slots, slots_bytes::<u64>(plan, slots)),
        map("tcp", "TCP_FREE", slots, u64::from(slots) * 4),
        map("tcp", "TCP_ROOM", WORDS, PAGE),
        map("tcp", "TCP_LOSSES", TcpLoss::COUNT, PAGE),
    ]
}

fn net_maps(plan: &Plan) -> [MapMemory; 10] {
    let (slots, drops, cpus) = (plan.slots, plan.sizes.drops, plan.cpus);
    [
        map("net", "NET_STATS", slots, u64::from(slots) * size_of::<NetStats>() as u64),
        map("net", "NET_SLOTS", slots, slots_bytes::<u64>(plan, slots)),
        map("net", "NET_FREE", slots, u64::from(slots) * 4),
        map("net", "NET_ROOM", WORDS, PAGE),
        map("net", "NET_DROPS", drops, u64::from(drops) * size_of::<DropStats>() as u64),
        map("net", "NET_DROP_SLOTS", drops, slots_bytes::<net::DropKey>(plan, drops)),
        map("net", "NET_DROP_FREE", drops, u64::from(drops) * 4),
        map("net", "NET_DROP_ROOM", WORDS, PAGE),
        map("net", "NET_REFUSED", 1, u64::from(cpus) * 8),
        map("net", "NET_LOSSES", NetLoss::COUNT, PAGE),
    ]
}

fn rxpath_maps(plan: &Plan) -> [MapMemory; 12] {
    let (slots, packets) = (plan.slots, plan.sizes.packets);
    [
        map("rxpath", "RXPATH_STATS", slots, u64::from(slots) * size_of::<RxpathStats>() as u64),
        map("rxpath", "RXPATH_SLOTS", slots, slots_bytes::<rxpath::Key>(plan, slots)),
        map("rxpath", "RXPATH_FREE", slots, u64::from(slots) * 4),
        map("rxpath", "RXPATH_ROOM", WORDS, PAGE),
        map("rxpath", "RXPATH_ARRIVALS", packets, u64::from(packets) * 8),
        map("rxpath", "RXPATH_IP", packets, u64::from(packets) * 8),
        map("rxpath", "RXPATH_POINTS", Protocol::COUNT, PAGE),
        map("rxpath", "RXPATH_SHARE", entries(ShareWord::COUNT), PAGE),
        map("rxpath", "RXPATH_WAITING", 1, PAGE),
        map("rxpath", "RXPATH_SLOW_FROM", 1, PAGE),
        map("rxpath", "RXPATH_SLOW", slow::RING_BYTES, u64::from(slow::RING_BYTES) + RING_OVERHEAD),
        map("rxpath", "RXPATH_LOSSES", RxpathLoss::COUNT, PAGE),
    ]
}

fn reclaim_maps(plan: &Plan) -> [MapMemory; 6] {
    let (slots, reclaims) = (plan.slots, plan.sizes.reclaims);
    [
        map("reclaim", "RECLAIM_STATS", slots, u64::from(slots) * size_of::<ReclaimStats>() as u64),
        map("reclaim", "RECLAIM_SLOTS", slots, slots_bytes::<u64>(plan, slots)),
        map("reclaim", "RECLAIM_FREE", slots, u64::from(slots) * 4),
        map("reclaim", "RECLAIM_ROOM", WORDS, PAGE),
        map("reclaim", "RECLAIM_BEGUN", reclaims, hash_bytes(plan, reclaims, size_of::<reclaim::Begun>())),
        map("reclaim", "RECLAIM_LOSSES", ReclaimLoss::COUNT, PAGE),
    ]
}

/// Bytes of the map from keys to slots, whose values take eight bytes.
fn slots_bytes<K>(plan: &Plan, slots: u32) -> u64 {
    hash_bytes(plan, slots, size_of::<K>() - 8 + size_of::<u64>())
}

/// Storage and its budget. The bytes are the most that the existing tasks or sockets may store; the kernel
/// accounts them to no map.
fn stored<T>(domain: &'static str, [name, budget]: [&'static str; 2], holders: u32) -> [MapMemory; 2] {
    let bytes = u64::from(holders) * storage::bytes_of(size_of::<T>());
    [map(domain, name, holders, bytes), map(domain, budget, entries(BUDGET), PAGE)]
}

/// Bytes of a preallocated hash with keys of eight bytes; the size of a value is a multiple of eight. It has
/// a spare element for each possible CPU.
fn hash_bytes(plan: &Plan, entries: u32, value: usize) -> u64 {
    lru_bytes(entries, value) + u64::from(plan.cpus) * element_bytes(value)
}

/// As `hash_bytes`, for a hash that evicts: it has no spare elements.
fn lru_bytes(entries: u32, value: usize) -> u64 {
    u64::from(entries) * element_bytes(value) + u64::from(entries.next_power_of_two()) * HASH_BUCKET
}

fn element_bytes(value: usize) -> u64 {
    HASH_ELEMENT + 8 + value as u64
}

#[expect(clippy::cast_possible_truncation, reason = "small constants")]
const fn entries(count: usize) -> u32 {
    count as u32
}

const fn map(domain: &'static str, map: &'static str, entries: u32, bytes: u64) -> MapMemory {
    MapMemory { domain, map, entries, bytes }
}
