//! The slots of any domain, independent of the types of their counters and keys: what the engine asks of
//! them to charge workloads.

use std::io;

use super::{Counters, Key, SlotOwner, Slots};
use crate::bpf::LoadError;
use crate::snapshot::{PodTotals, WorkloadSample};

/// Counters of one cgroup that are added to the totals of its workload and pod.
pub trait Charge: Send {
    /// Whether nothing was counted.
    fn is_idle(&self) -> bool;
    fn add_to(&self, workload: &mut WorkloadSample);

    /// Whether the totals of pods have a part for it.
    fn is_of_pods(&self) -> bool {
        true
    }

    fn add_to_pod(&self, _pod: &mut PodTotals) {}
}

/// A domain's slots. An operation on several of them goes on after a failure, and returns the first error.
pub trait SlotTable {
    /// Looks up which cgroups have slots.
    fn list(&mut self) -> io::Result<()>;

    /// Whether a cgroup's id alone determines its slot. If not, `release` finds only what was listed.
    fn has_one_slot_per_cgroup(&self) -> bool;

    /// The listed cgroups.
    fn cgroups(&self) -> Vec<u64>;

    /// See [`Slots::read`].
    fn read(&mut self, knows: &dyn Fn(u64) -> bool, take: &mut dyn FnMut(SlotOwner, &dyn Charge));

    /// Frees the slots of a deleted cgroup, and passes their last counts to `take`.
    fn release(&mut self, cgroup: u64, take: &mut dyn FnMut(Box<dyn Charge>)) -> Result<(), LoadError>;

    /// The same for the listed cgroups that do not exist and will not return.
    fn retire(
        &mut self,
        is_gone: &dyn Fn(u64) -> bool,
        take: &mut dyn FnMut(&dyn Charge),
    ) -> Result<(), LoadError>;
}

impl<S: Counters + Charge + 'static, K: Key> SlotTable for Slots<S, K> {
    fn list(&mut self) -> io::Result<()> {
        Self::list(self)
    }

    fn has_one_slot_per_cgroup(&self) -> bool {
        K::of_cgroup(0).is_some()
    }

    fn cgroups(&self) -> Vec<u64> {
        self.owners().map(|(_, id)| id).collect()
    }

    fn read(&mut self, knows: &dyn Fn(u64) -> bool, take: &mut dyn FnMut(SlotOwner, &dyn Charge)) {
        Self::read(self, knows, |owner, gathered| take(owner, gathered));
    }

    fn release(&mut self, cgroup: u64, take: &mut dyn FnMut(Box<dyn Charge>)) -> Result<(), LoadError> {
        let keys = K::of_cgroup(cgroup).map_or_else(|| self.keys_of(cgroup), |key| vec![key]);
        for_all(keys, |key| Self::release(self, key, |gathered| take(Box::new(*gathered))))
    }

    fn retire(
        &mut self,
        is_gone: &dyn Fn(u64) -> bool,
        take: &mut dyn FnMut(&dyn Charge),
    ) -> Result<(), LoadError> {
        let gone: Vec<K> = self.owners().filter(|(_, id)| is_gone(*id)).map(|(key, _)| key).collect();
        for_all(gone, |key| Self::retire(self, key, |gathered| take(gathered)))
    }
}

fn for_all<K>(keys: Vec<K>, mut does: impl FnMut(K) -> Result<(), LoadError>) -> Result<(), LoadError> {
    let mut result = Ok(());
    for key in keys {
        let done = does(key);
        result = result.and(done);
    }
    result
}
