//! The sizes of the maps. They depend on the CPUs, the node's memory and the objects found at startup, and
//! stay within a share of that memory.

use std::ops::RangeInclusive;

use schemars::JsonSchema;
use serde::Serialize;
use sysprobe_common::{block, reclaim};

use super::{CpuShards, Plan, memory};
use crate::host::{Facts, Scale};

/// The maps take at most the node's memory divided by this: half of what the kernel itself takes to describe
/// its pages (64 bytes for each 4,096).
const OF_THE_NODE: u64 = 128;
/// They also take at most the agent's own memory limit divided by this, to which they are charged since Linux
/// 5.11; the process needs the rest.
const OF_THE_LIMIT: u64 = 4;
/// However much memory there is, they take at most this much per [`SLOTS`], plus the requests in flight.
const OF_ALL_SLOTS: u64 = 64 << 20;

/// Enough for 500 pods, each with a cgroup for the sandbox and one or two containers, and for the host's
/// units.
const SLOTS: u32 = 2048;
/// The minimum, however small the node: fewer slots would tell too few cgroups apart.
const SLOTS_LEAST: u32 = 256;
const SLOTS_MOST: u32 = 65_536;
/// One slot per cgroup leaves room for more: a third of the cgroups, those of pods and slices, have no tasks
/// of their own.
const SLOTS_STEP: u32 = 1024;

/// A cgroup with drops has them for a handful of reasons.
const REASONS_PER_SLOT: u32 = 4;
/// A throttled cgroup has a queue (`cfs_rq`) on each CPU that it runs on.
const THROTTLES_PER_CPU: u32 = 256;
const THROTTLES_PER_SLOT: u32 = 4;
const THROTTLES_LEAST: u32 = 8192;

/// Bytes per entry of an operation in progress.
const REQUEST: u64 = memory::hash_entry::<u64, block::Request>();
const RECLAIM: u64 = memory::hash_entry::<u64, reclaim::Begun>();
/// Two timestamps: when the packet passed a device, and when it reached IP.
const PACKET: u64 = 16;
/// The minimum of requests on a small machine, which may get more devices, and of packets.
const IN_PROGRESS_LEAST: u32 = 8_192;
/// 30 MiB, for machines with several `NVMe` devices of 64 queues each.
const REQUESTS_MOST: u32 = 1 << 18;
/// The minimum per CPU: more devices may be added.
const REQUESTS_PER_CPU: u32 = 256;
/// One entry per task that reclaims memory. More of them than this would make no progress.
const RECLAIMS_MOST: u32 = 1 << 16;
/// 350 KiB, for more threads than a small node runs.
const RECLAIMS_LEAST: u32 = 4_096;
/// 4 MiB: at two million packets per second, an entry is replaced after 130 ms.
const PACKETS_MOST: u32 = 1 << 18;

/// Sizes of the BPF maps that do not have one entry per slot, and the reasons for all sizes.
#[derive(Clone, Debug, Default, JsonSchema, Serialize)]
pub struct Sizes {
    /// Maximum number of pairs of a cgroup, or the kernel, and a block device that it uses.
    pub block: u32,
    /// Maximum number of pairs of a cgroup and a reason for which its packets are dropped.
    pub drops: u32,
    /// Maximum number of pairs of a cgroup that waits for a CPU and a cgroup that has it meanwhile.
    pub interference: u32,
    /// Maximum number of run queues of throttled cgroups that are tracked at one time.
    // The JSON form keeps its field names.
    #[serde(rename = "holds")]
    pub throttles: u32,
    /// Maximum number of requests in flight to block devices. Further ones are not measured and are counted
    /// as lost.
    pub requests: u32,
    /// Maximum number of concurrently reclaiming tasks. Further ones are not measured and are counted as
    /// lost.
    pub reclaims: u32,
    /// Maximum number of packets tracked from their first device to their socket, a power of two. A newer
    /// packet can overwrite an older one.
    pub packets: u32,
    /// Memory budget in bytes of all maps, except those with an entry per task or socket.
    pub budget_bytes: u64,
    /// All sizes with their reasons, for people.
    pub reasons: Vec<SizeReason>,
}

/// A size and its reason.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct SizeReason {
    /// What the size is for, such as `slots`.
    pub what: &'static str,
    /// The size, as a number of entries or shards; for `budget`, in bytes.
    pub size: u64,
    /// The reason for the size, in words.
    pub reason: String,
}

/// The first step that fits is taken. Fewer shards only cost CPU time, and fewer packets only lose those that
/// wait longest. Fewer pairs lose names of devices and of interfering cgroups, and requests without room are
/// not measured.
const LADDER: [Step; 8] = [
    Step { shards: 16, packets: 1 << 14, devices: 4, pairs: 32, in_progress: 2 },
    Step { shards: 8, packets: 1 << 14, devices: 4, pairs: 32, in_progress: 2 },
    Step { shards: 8, packets: 1 << 12, devices: 4, pairs: 32, in_progress: 2 },
    Step { shards: 8, packets: 1 << 12, devices: 3, pairs: 32, in_progress: 2 },
    Step { shards: 8, packets: 1 << 12, devices: 2, pairs: 32, in_progress: 2 },
    Step { shards: 4, packets: 1 << 12, devices: 2, pairs: 16, in_progress: 2 },
    Step { shards: 4, packets: 1 << 12, devices: 2, pairs: 16, in_progress: 4 },
    Step { shards: 4, packets: 1 << 11, devices: 2, pairs: 16, in_progress: 16 },
];

#[derive(Clone, Copy)]
struct Step {
    /// For all CPUs together.
    shards: u32,
    /// Packets in the receive path, per CPU: one that receives 200,000 with data per second replaces 2^14 of
    /// them after 80 ms.
    packets: u32,
    /// Block devices per slot: each of 500 pods may have five volumes, which kernel threads use, too.
    devices: u32,
    /// Interfering cgroups per slot: 250 cgroups that all make each other wait make 62,000 pairs.
    pairs: u32,
    /// Each map of operations in progress takes at most the budget divided by this.
    in_progress: u64,
}

/// Chooses all sizes. If `configured` is 0, it also chooses the number of slots.
pub(super) fn choose(plan: &mut Plan, facts: &Facts, configured: u32) {
    let (wanted, why) = wanted(&facts.scale, configured);
    let (budget, share) = budget(facts, wanted);
    let least = if configured == 0 { SLOTS_LEAST.min(wanted) } else { wanted };
    // The next lower power of two, so that `SLOTS` is one of the steps.
    let lower = |slots: &u32| Some(slots.next_power_of_two() / 2).filter(|slots| *slots >= least);
    let steps = std::iter::successors(Some(wanted), lower).flat_map(|slots| LADDER.map(|step| (slots, step)));
    let mut fits = false;
    for (slots, step) in steps {
        apply(plan, facts, (slots, step), budget);
        fits = bytes(plan) <= budget;
        if fits {
            break;
        }
    }
    plan.sizes.budget_bytes = budget;
    plan.sizes.reasons = reasons(plan, facts, wanted, &why, &share);
    if !fits {
        plan.warnings.push(format!(
            "the BPF maps take {} KiB, more than their budget of {} KiB ({share})",
            bytes(plan) / 1024,
            budget / 1024
        ));
    }
    if configured == 0 && plan.slots < facts.scale.cgroups {
        plan.warnings.push(format!(
            "there are {} cgroups and slots for {}, as many as fit into {share}: raise the agent's memory \
             limit, or set `slots`",
            facts.scale.cgroups, plan.slots
        ));
    }
}

/// The wanted number of slots, and the reason.
fn wanted(scale: &Scale, configured: u32) -> (u32, String) {
    let found = scale.cgroups.min(SLOTS_MOST).next_multiple_of(SLOTS_STEP);
    match configured {
        0 if found > SLOTS => (found, format!("room for the {} existing cgroups", scale.cgroups)),
        0 => (SLOTS, "room for 500 pods".to_owned()),
        _ => (configured, "as configured".to_owned()),
    }
}

/// The budget of all maps in bytes, and a description of that share.
fn budget(facts: &Facts, slots: u32) -> (u64, String) {
    let scale = &facts.scale;
    let per_slots = OF_ALL_SLOTS * u64::from(slots.max(SLOTS)) / u64::from(SLOTS);
    let in_flight = REQUEST * u64::from(requests(facts).min(REQUESTS_MOST));
    let shares = [
        (
            Some(per_slots + in_flight),
            format!("{} MiB for each {SLOTS} slots, and the requests in flight", OF_ALL_SLOTS >> 20),
        ),
        (
            Some(scale.memory_bytes / OF_THE_NODE).filter(|bytes| *bytes > 0),
            format!("a {OF_THE_NODE}th of the node's memory"),
        ),
        (
            scale.memory_limit_bytes.map(|bytes| bytes / OF_THE_LIMIT),
            "a quarter of the agent's memory limit".to_owned(),
        ),
    ];
    let known = shares.into_iter().filter_map(|(bytes, share)| Some((bytes?, share)));
    known.min_by_key(|(bytes, _)| *bytes).unwrap_or_default()
}

fn apply(plan: &mut Plan, facts: &Facts, (slots, step): (u32, Step), budget: u64) {
    let online = online(facts);
    plan.slots = slots;
    plan.cpu_shards = CpuShards::new(&facts.cpus, step.shards);
    let found = slots.saturating_add(facts.scale.disks.saturating_mul(2)).min(SLOTS_MOST * step.devices);
    // A node whose memory is unknown (0) gets the minimum.
    let share = budget.min(facts.scale.memory_bytes) / step.in_progress;
    plan.sizes = Sizes {
        block: found.max(slots * step.devices),
        drops: slots * REASONS_PER_SLOT,
        interference: slots * step.pairs,
        throttles: online
            .saturating_mul(THROTTLES_PER_CPU)
            .max(THROTTLES_LEAST)
            .min(slots * THROTTLES_PER_SLOT),
        requests: within(requests(facts), IN_PROGRESS_LEAST..=REQUESTS_MOST, share / REQUEST),
        reclaims: within(facts.threads, RECLAIMS_LEAST..=RECLAIMS_MOST, share / RECLAIM),
        packets: within(
            online.saturating_mul(step.packets),
            IN_PROGRESS_LEAST..=PACKETS_MOST,
            share / PACKET,
        ),
        ..Sizes::default()
    };
}

fn online(facts: &Facts) -> u32 {
    u32::try_from(facts.cpus.online.len()).unwrap_or(u32::MAX).max(1)
}

/// Twice what the queues can have in flight, because devices may be added later.
fn requests(facts: &Facts) -> u32 {
    facts.queues.requests.saturating_mul(2).max(online(facts).saturating_mul(REQUESTS_PER_CPU))
}

/// A power of two with room for `wanted` entries: at most the end of `range` and what is affordable, but at
/// least the start of `range`.
fn within(wanted: u32, range: RangeInclusive<u32>, affordable: u64) -> u32 {
    let most = u64::from(*range.end()).min(affordable);
    // The greatest power of two within the limit.
    let most = most.checked_ilog2().map_or(0, |bits| 1_u32 << bits.min(31));
    wanted.min(most).next_power_of_two().max(*range.start())
}

/// The bytes of all maps, without what grows with tasks and sockets: the configuration and a separate budget
/// bound that.
fn bytes(plan: &Plan) -> u64 {
    let fixed = Plan { tasks: 0, threads: 0, sockets: 0, ..plan.clone() };
    let maps = memory::of_maps(&fixed, |domain| plan.first_mode(domain));
    maps.iter().map(|map| map.bytes).sum()
}

fn reasons(plan: &Plan, facts: &Facts, wanted: u32, why: &str, share: &str) -> Vec<SizeReason> {
    let (sizes, shards) = (&plan.sizes, plan.cpu_shards.shards);
    let less = if plan.slots < wanted { format!("; {wanted} would not fit") } else { String::new() };
    let (online, caches) = (facts.cpus.online.len(), facts.cpus.caches.len());
    let late = facts.cpus.possible as usize - online.min(facts.cpus.possible as usize);
    let sharing = if online > shards.count as usize {
        format!("for {online} CPUs with {caches} last-level caches")
    } else if late > 0 {
        format!("one for each of {online} CPUs, one for {late} that may come online")
    } else {
        format!("one for each of {online} CPUs")
    };
    let row = |what, size: u64, reason| SizeReason { what, size, reason };
    vec![
        row("budget", sizes.budget_bytes, format!("bytes: {share}")),
        row("slots", plan.slots.into(), format!("{why}{less}")),
        row("shards", shards.count.into(), sharing),
        row("block", sizes.block.into(), format!("cgroups by device, {} devices now", facts.scale.disks)),
        row("drops", sizes.drops.into(), "cgroups by reason".to_owned()),
        row(
            "interference",
            sizes.interference.into(),
            "pairs of a cgroup that waits and one that runs".to_owned(),
        ),
        row("throttles", sizes.throttles.into(), "queues of throttled groups".to_owned()),
        row(
            "requests",
            sizes.requests.into(),
            format!("in flight; the existing queues hold {}", facts.queues.requests),
        ),
        row("reclaims", sizes.reclaims.into(), format!("in progress; {} threads now", facts.threads)),
        row("packets", sizes.packets.into(), format!("on their way, for {online} CPUs")),
    ]
}

#[cfg(test)]
mod tests;
