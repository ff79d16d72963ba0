//! The receive path: starts the BPF programs, and adds the receive latencies of each cgroup to its workload's
//! totals.

use std::time::Instant;

use sysprobe_common::rxpath::{self, Point, Protocol, RxpathLoss, RxpathStats};
use sysprobe_common::shared;

use crate::bpf::{Lanes, LoadError, Loaded, Loader, MappedArray, Plain, Running};
use crate::domain::slots::{self, Charge, Counters, Key, SlotOwner, SlotTable, Slots};
use crate::domain::times;
use crate::domain::traits::{Domain, Start};
use crate::plan::{Candidate, Plan, Shards};
use crate::probe::rxpath::SLOTS;
use crate::probe::{self, ProgramSet};
use crate::snapshot::{LostUpdates, PodTotals, RxpathSample, WorkloadSample};
use crate::storage::Store;

mod following;
mod share;
mod slices;
pub mod slow;

use following::Following;
use slow::SlowRequests;

/// The attached programs and their maps.
pub struct Rxpath {
    loaded: Loaded,
    slots: Slots<RxpathStats, ProtocolKey>,
    losses: Lanes,
    slow: SlowRequests,
    store: Option<Store>,
    following: Following,
}

/// See `rxpath::Key`.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct ProtocolKey(rxpath::Key);

impl Rxpath {
    /// Follows all packets for a while.
    pub fn follow_all(&mut self, until: Instant) {
        self.following.follow_all(until);
        self.update(Instant::now());
    }

    /// Adapts the share of followed packets to the load, and takes over new slow requests.
    pub fn update(&mut self, now: Instant) {
        self.following.update(&mut self.loaded, now);
        self.slow.update(now);
    }

    /// The share of the packets that is followed.
    #[must_use]
    pub fn followed_ratio(&self) -> f64 {
        self.following.ratio()
    }

    /// Individual slow requests.
    pub const fn slow(&mut self) -> &mut SlowRequests {
        &mut self.slow
    }

    /// Number of slow requests that found no room, in the ring or here.
    #[must_use]
    pub fn slow_lost(&self) -> u64 {
        self.losses.total(RxpathLoss::SlowRingFull as u32) + self.slow.superfluous()
    }
}

/// The points that can be observed, by protocol. A stage without a hook is merged into the next one.
fn points(loaded: &Loaded, in_hash: bool, knows_readers: bool) -> [u32; Protocol::ALL.len()] {
    let any = |programs: &[&str]| programs.iter().any(|program| loaded.runs(program));
    let tells_ready = any(&["rxpath_ready_tp", "rxpath_ready_in", "rxpath_ready_rt", "rxpath_ready_kp"]);
    // The reader's points can only be told if it is known when the data became readable.
    let tells_reader = tells_ready && knows_readers;
    let common = [
        (Point::Device, true),
        (Point::Ip, any(&["rxpath_ip4_in", "rxpath_ip4_kp"])),
        (Point::Ready, tells_ready),
        (Point::Wakeup, tells_reader),
        (Point::Run, tells_reader),
        (Point::Read, true),
    ];
    let common: u32 = common.iter().filter(|(_, seen)| *seen).map(|(point, _)| point.bit()).sum();
    let of_udp = if any(&["rxpath_udp_in", "rxpath_udp_kp"]) { Point::Transport.bit() } else { 0 };
    let is_read = any(&["rxpath_recv_tp", "rxpath_take_in", "rxpath_recv_rt", "rxpath_take_kp"]);
    // Socket storage is freed with its socket; a hash entry would pass to another socket.
    let forgets = !in_hash || any(&["rxpath_end_kp"]);
    let follows_udp = is_read && forgets && (of_udp != 0 || tells_ready);
    // The arrival at TCP is only observed if readiness is not.
    let of_tcp = if any(&["rxpath_tcp_tp", "rxpath_tcp_rt"]) { Point::Transport.bit() } else { 0 };
    [common | of_tcp, if follows_udp { common | of_udp } else { 0 }]
}

impl Domain for Rxpath {
    fn slot_tables(&mut self) -> Vec<&mut dyn SlotTable> {
        vec![&mut self.slots]
    }

    fn losses(&self) -> Vec<LostUpdates> {
        slots::losses(Self::NAME, &self.losses, RxpathLoss::ALL.map(RxpathLoss::reason)).collect()
    }

    fn in_use(&self) -> Vec<(&'static str, u64)> {
        vec![self.slots.in_use()]
    }

    fn store(&mut self) -> Option<&mut Store> {
        self.store.as_mut()
    }
}

impl Start for Rxpath {
    const NAME: &'static str = "rxpath";

    fn start(
        loader: &Loader,
        set: &'static ProgramSet,
        candidate: &Candidate,
        plan: &Plan,
    ) -> Result<Self, LoadError> {
        let in_hash = probe::keeps_tasks_in_hash(set.mode);
        let knows_readers = !in_hash && loader.shares(shared::SCHED_TASKS);
        let mut globals = candidate.globals.clone();
        globals.push(("CFG_ARRIVAL_BITS", plan.sizes.packets.trailing_zeros()));
        if !in_hash {
            globals.push(("CFG_SLICES", u32::from(knows_readers)));
        }
        let mut loaded = loader.load(set, &globals, &plan.map_sizes(set))?;
        let slots = Slots::new(&mut loaded, SLOTS, Shards::ONE)?;
        let losses = loaded.map_lanes("RXPATH_LOSSES")?;
        let mut seen: MappedArray<u64> = loaded.map_array("RXPATH_POINTS")?;
        let slow = SlowRequests::new(&mut loaded)?;
        let following = Following::new(&mut loaded, set, plan)?;
        let budget = (Self::NAME, "RXPATH_BUDGET");
        let store = Store::of_set(&mut loaded, set, budget, &plan.storage)?;
        loaded.attach()?;
        for (protocol, points) in points(&loaded, in_hash, knows_readers).into_iter().enumerate() {
            seen.write(protocol, u64::from(points));
        }
        Ok(Self { loaded, slots, losses, slow, store, following })
    }
}

impl Running for Rxpath {
    fn loaded(&self) -> &Loaded {
        &self.loaded
    }
}

// SAFETY: integers without padding between or behind them.
unsafe impl aya::Pod for ProtocolKey {}

impl Default for ProtocolKey {
    fn default() -> Self {
        Self(rxpath::Key { cgroup: 0, protocol: 0, pad: 0 })
    }
}

impl Key for ProtocolKey {
    fn of_cgroup(_id: u64) -> Option<Self> {
        None
    }

    fn owner(&self) -> SlotOwner {
        SlotOwner::of_number(self.0.cgroup)
    }
}

// SAFETY: 64-bit and 32-bit integers, and arrays of them.
unsafe impl Plain for RxpathStats {}

impl Counters for RxpathStats {
    const ZERO: Self = Self::ZERO;

    fn combine(&mut self, other: &Self, wide: fn(u64, u64) -> u64, narrow: fn(u32, u32) -> u32) {
        // These two do not change once they are set.
        self.protocol |= other.protocol;
        self.points |= other.points;
        for (own, other) in self.stages.iter_mut().zip(&other.stages) {
            times::combine(own, other, wide, narrow);
        }
        times::combine(&mut self.total, &other.total, wide, narrow);
    }
}

impl Charge for RxpathStats {
    fn is_idle(&self) -> bool {
        self.stages.iter().chain([&self.total]).all(times::is_unused)
    }

    fn add_to(&self, workload: &mut WorkloadSample) {
        accumulate(workload.rxpath.get_or_insert_default(), self);
    }

    fn add_to_pod(&self, pod: &mut PodTotals) {
        accumulate(&mut pod.rxpath, self);
    }
}

/// Adds a slot's counters to a workload's or a pod's totals.
fn accumulate(total: &mut RxpathSample, gathered: &RxpathStats) {
    let Some(protocol) = Protocol::ALL.into_iter().find(|one| *one as u32 + 1 == gathered.protocol) else {
        return;
    };
    let path = total.protocols.entry(protocol.name().to_owned()).or_default();
    times::accumulate(&mut path.total, &gathered.total);
    for (name, times) in stages(gathered, protocol) {
        times::accumulate(&mut path.stage_mut(&name).latency, times);
    }
}

/// The stages with their names, in the order in which packets pass them.
fn stages(
    gathered: &RxpathStats,
    protocol: Protocol,
) -> impl Iterator<Item = (String, &sysprobe_common::hist::Times)> {
    let seen = Point::ALL.into_iter().filter(|point| gathered.points & point.bit() != 0);
    let ends = seen.clone().skip(1);
    seen.zip(ends).filter_map(move |(from, to)| {
        Some((stage_name(from, to, protocol), &gathered.stages[RxpathStats::stage_to(to)?]))
    })
}

/// The value of the `stage` label.
pub(crate) fn stage_name(from: Point, to: Point, protocol: Protocol) -> String {
    format!("{}_to_{}", name(from, protocol), name(to, protocol))
}

const fn name(point: Point, protocol: Protocol) -> &'static str {
    match point {
        Point::Device => "device",
        Point::Ip => "ip",
        Point::Transport => protocol.name(),
        Point::Ready => "ready",
        Point::Wakeup => "wakeup",
        Point::Run => "run",
        Point::Read => "read",
    }
}
