//! Kernel memory for task and socket storage. The kernel charges it to the memory cgroup of the agent, which
//! created the maps. At the limit, an allocation fails (since Linux 7.1), or exceeds the limit and gets the
//! agent OOM-killed (before). Each object may therefore create only as many values as the agent has granted,
//! and the grants end before the memory does.
//!
//! Grants are renewed once a second, and hold until the next renewal, however late that is. The programs
//! count the values that they create (`sysprobe-ebpf/src/storage.rs`).

use schemars::JsonSchema;
use serde::Serialize;
use sysprobe_common::storage::{GRANTED, MADE, REFUSED};

use crate::bpf::{Lanes, LoadError, Loaded};
use crate::host::{Facts, MemoryGroup, Population, Usage, is_before};
use crate::probe::{MapKind, MapSpec, ProgramSet};
use crate::snapshot::{LostUpdates, StorageSample};

/// The kind of object that storage belongs to.
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

    /// Upper bound of the number of these objects now.
    const fn most(self, population: &Population) -> u64 {
        match self {
            Self::Task => population.tasks,
            Self::Socket => population.sockets,
        }
    }
}

/// Bytes of `struct bpf_local_storage`: a task's or socket's list of its storage, which all domains share.
const LIST_BYTES: u64 = 192;

/// Bytes that an allocation takes: `kmalloc_info` of `mm/slab_common.c`.
const fn allocated(bytes: u64) -> u64 {
    match bytes {
        0..=128 => 128,
        129..=192 => 192,
        193..=256 => 256,
        _ => bytes.next_power_of_two(),
    }
}

/// Bytes that the kernel allocates for each value besides the value itself. Until Linux 6.2, they are all of
/// `struct bpf_local_storage_elem`, whose padding is of no use. Since 6.3, they end where the value begins.
/// From 6.1.100 on, they do so, too, but that counts as older here: too much is safe.
fn overhead_bytes(kernel: &str) -> u64 {
    if is_before(kernel, (6, 3)) { 128 } else { 72 }
}

/// Limits of the kernel memory for task and socket storage.
#[derive(Clone, Debug, Default, JsonSchema, Serialize)]
pub struct Limits {
    #[serde(skip)]
    overhead_bytes: u64,
    /// Maximum number of bytes for all storage together, regardless of the cgroups' limits.
    pub most_bytes: u64,
    /// The agent's memory cgroups, whose limits apply as well.
    pub groups: Vec<MemoryGroup>,
}

/// The part of a memory limit that is reserved for growth of the agent's own memory, unless an eighth of the
/// limit is more.
const RESERVE: u64 = 16 << 20;
/// Without a configured limit, storage may take the node's memory divided by this.
const SHARE: u64 = 100;

impl Limits {
    #[must_use]
    pub fn new(facts: &Facts, configured_mebibytes: u32) -> Self {
        let configured = u64::from(configured_mebibytes) << 20;
        Self {
            overhead_bytes: overhead_bytes(&facts.kernel),
            most_bytes: if configured == 0 { facts.scale.memory_bytes / SHARE } else { configured },
            groups: facts.memory_groups.clone(),
        }
    }

    /// Kernel memory of one value, as the kernel's allocator rounds it.
    #[must_use]
    pub const fn bytes_of(&self, holder: Holder, value: usize) -> u64 {
        // From Linux 6.4 on, the storage of tasks has an allocator of its own, which adds a list node
        // (`LLIST_NODE_SZ`). It is counted on all kernels.
        let node = match holder {
            Holder::Task => 8,
            Holder::Socket => 0,
        };
        allocated(self.overhead_bytes + node + value as u64)
    }

    /// Bytes that may be allocated until the next renewal if `in_use` bytes are in use.
    #[must_use]
    pub fn free(&self, in_use: u64) -> u64 {
        free(self.most_bytes, in_use, self.groups.iter().filter_map(MemoryGroup::usage))
    }
}

/// Half of what is left, because the agent grows, too, and other processes may be in its cgroups.
fn free(most: u64, in_use: u64, groups: impl Iterator<Item = Usage>) -> u64 {
    let of_group = |usage: Usage| {
        let reserve = (usage.limit / 8).max(RESERVE);
        usage.limit.saturating_sub(reserve).saturating_sub(usage.used)
    };
    groups.map(of_group).fold(most.saturating_sub(in_use), u64::min) / 2
}

/// One object's storage.
pub struct Store {
    pub domain: &'static str,
    pub holder: Holder,
    bytes_each: u64,
    budget: Lanes,
}

impl Store {
    /// The storage of these programs; `None` if they use a hash. Takes the budget from an object whose
    /// programs do not run yet, and grants what there is room for, because tasks and sockets older than the
    /// agent are registered next.
    pub fn of_set(
        loaded: &mut Loaded,
        set: &ProgramSet,
        (domain, budget): (&'static str, &'static str),
        limits: &Limits,
    ) -> Result<Option<Self>, LoadError> {
        let holder = |map: &MapSpec| match map.kind {
            MapKind::TaskStorage => Some((Holder::Task, map.value)),
            MapKind::SocketStorage => Some((Holder::Socket, map.value)),
            _ => None,
        };
        let Some((holder, value)) = set.maps().find_map(holder) else { return Ok(None) };
        let budget = loaded.map_lanes(budget)?;
        let mut store = Self { domain, holder, bytes_each: limits.bytes_of(holder, value), budget };
        store.grant(limits.free(0) / (store.bytes_each + LIST_BYTES));
        Ok(Some(store))
    }

    /// Lets the programs create `more` further values.
    pub fn grant(&mut self, more: u64) {
        self.budget.write_shared(GRANTED, self.made() + more);
    }

    /// Whether no further value can be created until more is granted.
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        self.budget.shared(GRANTED).is_some_and(|granted| self.made() >= granted)
    }

    fn made(&self) -> u64 {
        self.budget.shared(MADE).unwrap_or(0)
    }

    /// Upper bound of the existing values: no more than were created, and no more than there are tasks or
    /// sockets.
    fn living(&self, population: &Population) -> u64 {
        self.made().min(self.holder.most(population))
    }

    /// Values that were not created for lack of a grant.
    #[must_use]
    pub fn loss(&self) -> LostUpdates {
        let count = self.budget.total(REFUSED);
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

/// The memory of each store.
pub fn samples(stores: &[&mut Store], population: &Population) -> Vec<StorageSample> {
    let sample = |(store, bytes): (&&mut Store, u64)| StorageSample {
        domain: store.domain.into(),
        kind: store.holder.name().into(),
        bytes,
    };
    stores.iter().zip(bytes(stores, population)).map(sample).collect()
}

/// The memory of each store. The shared lists are counted with the first store of each kind of holder.
fn bytes(stores: &[&mut Store], population: &Population) -> Vec<u64> {
    let is_first = |at: usize| stores[..at].iter().all(|other| other.holder != stores[at].holder);
    let each = |at: usize| stores[at].bytes_each + if is_first(at) { LIST_BYTES } else { 0 };
    let bytes =
        stores.iter().enumerate().map(|(at, store)| store.living(population).saturating_mul(each(at)));
    bytes.collect()
}

#[cfg(test)]
mod tests;
