//! Network traffic other than TCP, and dropped packets: starts the BPF programs, and adds each cgroup's
//! counters to its workload's totals.

use sysprobe_common::net::{self, DropStats, NetLoss, NetStats, Protocol};
use sysprobe_common::shared;
use sysprobe_common::traffic::{Family, Traffic};

use crate::bpf::{Lanes, LoadError, Loaded, Loader, Plain, Running};
use crate::domain::slots::{self, Charge, Counters, Key, SlotOwner, SlotTable, Slots};
use crate::domain::traffic;
use crate::domain::traits::{Domain, Start};
use crate::plan::{Candidate, Plan, Shards};
use crate::probe::net::{DROP_SLOTS, SLOTS};
use crate::probe::{self, ProgramSet};
use crate::snapshot::{LostUpdates, NetSample, WorkloadSample};
use crate::storage::Store;

/// The attached programs and their maps.
pub struct Net {
    loaded: Loaded,
    slots: Slots<NetStats>,
    drops: Slots<DropStats, DropKey>,
    losses: Lanes,
    store: Option<Store>,
}

/// The kernel side's key: a cgroup and a reason.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DropKey(net::DropKey);

impl Domain for Net {
    fn slot_tables(&mut self) -> Vec<&mut dyn SlotTable> {
        vec![&mut self.slots, &mut self.drops]
    }

    fn losses(&self) -> Vec<LostUpdates> {
        slots::losses(Self::NAME, &self.losses, NetLoss::ALL.map(NetLoss::reason)).collect()
    }

    fn in_use(&self) -> Vec<(&'static str, u64)> {
        vec![self.slots.in_use(), self.drops.in_use()]
    }

    fn store(&mut self) -> Option<&mut Store> {
        self.store.as_mut()
    }
}

impl Start for Net {
    const NAME: &'static str = "net";

    fn start(
        loader: &Loader,
        set: &'static ProgramSet,
        candidate: &Candidate,
        plan: &Plan,
    ) -> Result<Self, LoadError> {
        let mut globals = candidate.globals.clone();
        if !probe::keeps_tasks_in_hash(set.mode) {
            globals.push(("CFG_TCP_SOCKETS", u32::from(loader.shares(shared::TCP_SOCKETS))));
        }
        let mut loaded = loader.load(set, &globals, &plan.map_sizes(set))?;
        let slots = Slots::new(&mut loaded, SLOTS, Shards::ONE)?;
        let drops = Slots::new(&mut loaded, DROP_SLOTS, Shards::ONE)?;
        let losses = loaded.map_lanes("NET_LOSSES")?;
        let budget = (Self::NAME, "NET_BUDGET");
        let store = Store::of_set(&mut loaded, set, budget, &plan.storage)?;
        loaded.attach()?;
        Ok(Self { loaded, slots, drops, losses, store })
    }
}

impl Running for Net {
    fn loaded(&self) -> &Loaded {
        &self.loaded
    }
}

// SAFETY: integers without padding between or behind them.
unsafe impl aya::Pod for DropKey {}

impl Default for DropKey {
    fn default() -> Self {
        Self(net::DropKey { cgroup: 0, reason: 0, pad: 0 })
    }
}

impl Key for DropKey {
    fn of_cgroup(_id: u64) -> Option<Self> {
        None
    }

    fn owner(&self) -> SlotOwner {
        SlotOwner::of_number(self.0.cgroup)
    }
}

// SAFETY: 64-bit and 32-bit integers, and arrays of them.
unsafe impl Plain for NetStats {}

impl Counters for NetStats {
    const ZERO: Self = Self::ZERO;

    fn combine(&mut self, other: &Self, wide: fn(u64, u64) -> u64, _narrow: fn(u32, u32) -> u32) {
        for (own, other) in self.traffic.iter_mut().flatten().zip(other.traffic.iter().flatten()) {
            traffic::combine(own, other, wide);
        }
    }
}

// SAFETY: 64-bit and 32-bit integers, and arrays of them.
unsafe impl Plain for DropStats {}

impl Counters for DropStats {
    const ZERO: Self = Self::ZERO;

    fn combine(&mut self, other: &Self, wide: fn(u64, u64) -> u64, _narrow: fn(u32, u32) -> u32) {
        // A difference keeps the reason.
        if self.reason == 0 {
            self.reason = other.reason;
        }
        self.packets = wide(self.packets, other.packets);
    }
}

/// There are no histograms, so nothing is added to the pod.
impl Charge for NetStats {
    fn is_idle(&self) -> bool {
        *self == Self::ZERO
    }

    fn add_to(&self, workload: &mut WorkloadSample) {
        accumulate(workload.net.get_or_insert_default(), self);
    }

    fn is_of_pods(&self) -> bool {
        false
    }
}

impl Charge for DropStats {
    fn is_idle(&self) -> bool {
        self.packets == 0
    }

    fn add_to(&self, workload: &mut WorkloadSample) {
        *workload.net.get_or_insert_default().drops.entry(self.reason).or_default() += self.packets;
    }

    fn is_of_pods(&self) -> bool {
        false
    }
}

/// Adds a slot's traffic to a workload's totals.
fn accumulate(total: &mut NetSample, gathered: &NetStats) {
    for protocol in Protocol::ALL {
        for family in Family::ALL {
            let gathered = &gathered.traffic[protocol as usize][family as usize];
            if *gathered != Traffic::ZERO {
                let families = total.traffic.entry(protocol.name().to_owned()).or_default();
                traffic::accumulate(families.entry(family.name().to_owned()).or_default(), gathered);
            }
        }
    }
}
