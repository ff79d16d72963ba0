//! Kernel memory that programs keep with tasks and sockets. The kernel charges it to the memory cgroup of the
//! agent, which made the maps: at a limit, an allocation fails (from Linux 7.1 on) or goes over it and has
//! the agent killed (before). So each object may make as many values as the agent has granted, and what is
//! granted ends before the memory does.
//!
//! What is granted is looked at anew once a second, and bounds what is made whenever the next look comes. How
//! many are made is counted by the programs (`sysprobe-ebpf/src/storage.rs`).

mod population;

use schemars::JsonSchema;
use serde::Serialize;
use sysprobe_common::storage::{GRANTED, MADE, REFUSED};

use crate::bpf::{LoadError, Loaded, MappedArray};
use crate::host::{Charge, MemoryGroup};
use crate::probe::{self, TierSet};
use crate::snapshot::{LostUpdates, StorageSample};
pub use population::Population;

/// What storage lies with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    Task,
    Socket,
}

impl Holder {
    /// The value of the `kind` label.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Task => "task",
            Self::Socket => "socket",
        }
    }
}

/// A task's or socket's list of what is stored with it, which all domains share: `struct bpf_local_storage`.
const LIST_BYTES: u64 = 192;

/// Kernel memory of one value with its head, as the kernel's allocator rounds it.
#[must_use]
pub const fn bytes_of(value: usize) -> u64 {
    /// `struct bpf_local_storage_elem` up to its data (Linux 6.3); older kernels take up to 56 bytes more.
    const HEAD: u64 = 72;
    allocated(HEAD + value as u64)
}

/// What an allocation takes: `kmalloc_info` of `mm/slab_common.c`.
const fn allocated(bytes: u64) -> u64 {
    match bytes {
        0..=128 => 128,
        129..=192 => 192,
        193..=256 => 256,
        _ => bytes.next_power_of_two(),
    }
}

/// How much all storages may take together.
#[derive(Clone, Debug, Default, JsonSchema, Serialize)]
pub struct Limits {
    /// In bytes, whatever the cgroups allow.
    pub most_bytes: u64,
    /// The agent's memory cgroups, whose limits are kept to as well.
    pub groups: Vec<MemoryGroup>,
}

/// Of a memory limit, what the agent's own memory may grow by, if an eighth of the limit is less.
const RESERVE: u64 = 16 << 20;
/// Of the node's memory, what storage may take where no limit says otherwise.
const SHARE: u64 = 100;

impl Limits {
    #[must_use]
    pub fn new(node_bytes: u64, configured_mebibytes: u32, groups: Vec<MemoryGroup>) -> Self {
        let configured = u64::from(configured_mebibytes) << 20;
        Self { most_bytes: if configured == 0 { node_bytes / SHARE } else { configured }, groups }
    }

    /// What may be made until the next look, in bytes, if so much is in use.
    #[must_use]
    pub fn free(&self, in_use: u64) -> u64 {
        free(self.most_bytes, in_use, self.groups.iter().filter_map(MemoryGroup::charge))
    }
}

/// Half of what is left: the agent grows, too, and other processes may be in its cgroups.
fn free(most: u64, in_use: u64, groups: impl Iterator<Item = Charge>) -> u64 {
    let of_group = |charge: Charge| {
        let reserve = (charge.limit / 8).max(RESERVE);
        charge.limit.saturating_sub(reserve).saturating_sub(charge.used)
    };
    groups.map(of_group).fold(most.saturating_sub(in_use), u64::min) / 2
}

/// One object's storage.
pub struct Store {
    pub domain: &'static str,
    pub holder: Holder,
    bytes_each: u64,
    budget: MappedArray<u64>,
}

impl Store {
    /// Of the values `T`: takes the budget out of an object whose programs do not run yet, and grants what
    /// there is room for: what is older than the agent is about to be made known. `None` for a tier that
    /// keeps a hash.
    pub fn of_tier<T>(
        loaded: &mut Loaded,
        set: &TierSet,
        (domain, budget): (&'static str, &'static str),
        holder: Holder,
        limits: &Limits,
    ) -> Result<Option<Self>, LoadError> {
        if probe::keeps_tasks_in_hash(set.tier) {
            return Ok(None);
        }
        let budget = loaded.map_array(budget)?;
        let mut store = Self { domain, holder, bytes_each: bytes_of(size_of::<T>()), budget };
        store.grant(limits.free(0) / (store.bytes_each + LIST_BYTES));
        Ok(Some(store))
    }

    /// Lets the programs make so many more.
    pub fn grant(&mut self, more: u64) {
        self.budget.write(GRANTED as usize, self.made() + more);
    }

    /// Whether there is no room for another one until more is granted.
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        self.budget.read(GRANTED as usize).is_some_and(|granted| self.made() >= granted)
    }

    fn made(&self) -> u64 {
        self.budget.read(MADE as usize).unwrap_or(0)
    }

    /// How many there may be at most: no more than were made, and than there are tasks or sockets.
    fn living(&self, population: &Population) -> u64 {
        self.made().min(population.of(self.holder))
    }

    /// What was not made, because no more was granted.
    #[must_use]
    pub fn loss(&self) -> LostUpdates {
        let count = self.budget.read(REFUSED as usize).unwrap_or(0);
        LostUpdates { domain: self.domain.into(), reason: "storage_budget".into(), count }
    }
}

/// Grants each store an equal part of what is free.
pub fn renew(stores: &mut [&mut Store], limits: &Limits, population: &Population) {
    let in_use = bytes(stores, population).iter().sum();
    let part = limits.free(in_use) / u64::try_from(stores.len()).unwrap_or(u64::MAX).max(1);
    for store in stores {
        store.grant(part / (store.bytes_each + LIST_BYTES));
    }
}

/// What each takes.
pub fn samples(stores: &[&mut Store], population: &Population) -> Vec<StorageSample> {
    let sample = |(store, bytes): (&&mut Store, u64)| StorageSample {
        domain: store.domain.into(),
        kind: store.holder.name().into(),
        bytes,
    };
    stores.iter().zip(bytes(stores, population)).map(sample).collect()
}

/// The lists are the first one's of each kind of holder.
fn bytes(stores: &[&mut Store], population: &Population) -> Vec<u64> {
    let is_first = |at: usize| stores[..at].iter().all(|other| other.holder != stores[at].holder);
    let each = |at: usize| stores[at].bytes_each + if is_first(at) { LIST_BYTES } else { 0 };
    let bytes =
        stores.iter().enumerate().map(|(at, store)| store.living(population).saturating_mul(each(at)));
    bytes.collect()
}

#[cfg(test)]
mod tests;
