//! The block domain: starts its BPF programs, and adds each cgroup's counters to its workload's totals.

use std::time::Instant;

use sysprobe_common::block::{self, BlockLoss, BlockStats, DISK_NAME, Operation};
use sysprobe_common::operation::OperationStats;

use crate::bpf::{Lanes, LoadError, Loaded, Loader, Plain, Running};
use crate::domain::in_progress::{Begun, InProgress};
use crate::domain::operation;
use crate::domain::slots::{self, Charge, Counters, Key, SlotOwner, SlotTable, Slots};
use crate::domain::traits::{Domain, Start};
use crate::plan::{Candidate, Plan, Shards};
use crate::probe::ProgramSet;
use crate::probe::block::SLOTS;
use crate::snapshot::{BlockSample, LostUpdates, PodTotals, WorkloadSample};

/// The attached programs and their maps.
pub struct Block {
    loaded: Loaded,
    slots: Slots<BlockStats, DeviceKey>,
    in_flight: InProgress<Request>,
    losses: Lanes,
}

/// The kernel side's key: a cgroup and a device.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceKey(block::Key);

/// A request in flight.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct Request(block::Request);

impl Block {
    /// The same slots as in `slot_tables`, typed: tests and benchmarks read them.
    pub const fn slots(&mut self) -> &mut Slots<BlockStats, DeviceKey> {
        &mut self.slots
    }
}

impl Domain for Block {
    fn slot_tables(&mut self) -> Vec<&mut dyn SlotTable> {
        vec![&mut self.slots]
    }

    fn losses(&self) -> Vec<LostUpdates> {
        let losses = slots::losses(Self::NAME, &self.losses, BlockLoss::ALL.map(BlockLoss::reason));
        slots::with_more(losses, BlockLoss::EndMissed.reason(), self.in_flight.removed()).collect()
    }

    fn in_use(&self) -> Vec<(&'static str, u64)> {
        vec![self.slots.in_use(), self.in_flight.in_use()]
    }

    fn remove_stale(&mut self, now: Instant, now_ns: u64) {
        let refused = self.losses.total(BlockLoss::InFlightFull as u32);
        self.in_flight.update(refused, now, now_ns);
    }
}

impl Start for Block {
    const NAME: &'static str = "block";

    fn start(
        loader: &Loader,
        set: &'static ProgramSet,
        candidate: &Candidate,
        plan: &Plan,
    ) -> Result<Self, LoadError> {
        let mut loaded = loader.load(set, &candidate.globals, &plan.map_sizes(set))?;
        let slots = Slots::new(&mut loaded, SLOTS, Shards::ONE)?;
        let in_flight = InProgress::new(&mut loaded, "BLOCK_IN_FLIGHT")?;
        let losses = loaded.map_lanes("BLOCK_LOSSES")?;
        loaded.attach()?;
        Ok(Self { loaded, slots, in_flight, losses })
    }
}

impl Running for Block {
    fn loaded(&self) -> &Loaded {
        &self.loaded
    }
}

// SAFETY: integers without padding between or behind them.
unsafe impl aya::Pod for DeviceKey {}

// SAFETY: as above.
unsafe impl aya::Pod for Request {}

impl Default for Request {
    fn default() -> Self {
        Self(block::Request { cgroup: 0, begun: 0, started: 0, issued: 0, bytes: 0, failed: 0, flush: 0 })
    }
}

impl Begun for Request {
    fn begun_ns(&self) -> u64 {
        self.0.begun
    }
}

impl Default for DeviceKey {
    fn default() -> Self {
        Self(block::Key { cgroup: 0, device: 0, pad: 0 })
    }
}

impl Key for DeviceKey {
    fn of_cgroup(_id: u64) -> Option<Self> {
        None
    }

    fn owner(&self) -> SlotOwner {
        SlotOwner::of_number(self.0.cgroup)
    }
}

// SAFETY: integers, and arrays of them.
unsafe impl Plain for BlockStats {}

impl Counters for BlockStats {
    const ZERO: Self = Self {
        disk: [0; DISK_NAME],
        queued_ns: [0; Operation::COUNT],
        operations: [OperationStats::ZERO; Operation::COUNT],
    };

    fn combine(&mut self, other: &Self, wide: fn(u64, u64) -> u64, narrow: fn(u32, u32) -> u32) {
        // A difference keeps the later name: the earlier reading may predate it.
        if self.disk[0] == 0 {
            self.disk = other.disk;
        }
        for (own, other) in self.queued_ns.iter_mut().zip(&other.queued_ns) {
            *own = wide(*own, *other);
        }
        for (own, other) in self.operations.iter_mut().zip(&other.operations) {
            operation::combine(own, other, wide, narrow);
        }
    }
}

impl Charge for BlockStats {
    fn is_idle(&self) -> bool {
        self.queued_ns.iter().all(|ns| *ns == 0) && self.operations.iter().all(operation::is_unused)
    }

    fn add_to(&self, workload: &mut WorkloadSample) {
        accumulate(workload.block.get_or_insert_default(), self);
    }

    fn add_to_pod(&self, pod: &mut PodTotals) {
        accumulate(&mut pod.block, self);
    }
}

/// Adds a slot's counters to a workload's or a pod's totals.
fn accumulate(total: &mut BlockSample, gathered: &BlockStats) {
    let device = total.devices.entry(name(gathered)).or_default();
    for operation in Operation::ALL {
        let total = device.of_mut(operation);
        total.queued_ns += gathered.queued_ns[operation as usize];
        operation::accumulate(&mut total.requests, &gathered.operations[operation as usize]);
    }
}

/// The device's name; `unknown` for a slot that several devices share.
fn name(gathered: &BlockStats) -> String {
    let name = gathered.disk.split(|byte| *byte == 0).next().unwrap_or_default();
    if name.is_empty() { "unknown".to_owned() } else { String::from_utf8_lossy(name).into_owned() }
}

#[cfg(test)]
mod tests;
