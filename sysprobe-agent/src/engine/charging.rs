//! From the slots of a domain to workloads: the same for every domain that charges cgroups.

use std::time::Instant;

use sysprobe_common::sched::threads::Threads;
use tracing::error;

use super::attribution::Attribution;
use super::identity::Identity;
use crate::cgroup::tree::Cgroup;
use crate::sched::debts::{Debts, Taken};
use crate::slots::{Counters, Key, Owner, Slots};
use crate::snapshot::SocketsSample;
use crate::workload::{Bearer, Charge, Registry};

/// A domain's slots, whatever they hold.
pub(super) trait Charged {
    /// Looks up which cgroups have slots.
    fn list(&mut self);

    /// The same before burials, where a cgroup does not tell its slots by itself.
    fn list_for_burials(&mut self);

    /// The cgroups that have slots.
    fn cgroups(&self) -> Vec<u64>;

    /// Takes in everything that the listed slots hold now.
    fn collect(&mut self, identity: &Identity, attribution: &Attribution, registry: &mut Registry);

    /// Books the last numbers of a dead cgroup and frees its slots.
    fn bury(
        &mut self,
        id: u64,
        cgroup: &Cgroup,
        attribution: &mut Attribution,
        registry: &mut Registry,
        now: Instant,
    );
}

impl<S: Counters + Charge + 'static, K: Key> Charged for Slots<S, K> {
    fn list(&mut self) {
        if let Err(error) = Self::list(self) {
            error!(%error, "A slot map could not be read.");
        }
    }

    fn list_for_burials(&mut self) {
        if K::of_cgroup(0).is_none() {
            Charged::list(self);
        }
    }

    fn cgroups(&self) -> Vec<u64> {
        self.owners().map(|(_, id)| id).collect()
    }

    fn collect(&mut self, identity: &Identity, attribution: &Attribution, registry: &mut Registry) {
        charge(self, attribution, registry);
        release_unheard(self, identity, attribution, registry);
    }

    fn bury(
        &mut self,
        id: u64,
        cgroup: &Cgroup,
        attribution: &mut Attribution,
        registry: &mut Registry,
        now: Instant,
    ) {
        let keys = K::of_cgroup(id).map_or_else(|| self.keys_of(id), |key| vec![key]);
        for key in keys {
            let released = self.release(key, |gathered| {
                if let Some(bearer) = attribution.settle(id, cgroup, now) {
                    registry.add(bearer, gathered);
                } else if !attribution.adopt(&cgroup.name, Box::new(*gathered), now) {
                    registry.add(&Bearer::unknown(), gathered);
                }
            });
            if let Err(error) = released {
                error!(%error, "The slot of a deleted cgroup could not be freed.");
            }
        }
    }
}

/// Finds out whose these cgroups are, all domains' at once: there is one walk for those that nobody has heard
/// of.
pub(super) fn settle(owners: &[u64], identity: &mut Identity, attribution: &mut Attribution) {
    let now = Instant::now();
    // A cgroup's birth is told before its first task can get a slot: after this, every slot should have a
    // name.
    identity.update(now);
    if owners.iter().any(|id| identity.tree().get(*id).is_none() && !attribution.is_late(*id)) {
        identity.look_again(now);
    }
    let tree = identity.tree();
    for (id, cgroup) in owners.iter().filter_map(|id| Some((*id, tree.get(*id)?))) {
        attribution.settle(id, cgroup, now);
    }
}

/// Charges what was gathered since the last time. What belongs to nobody yet stays where it is.
fn charge<S: Counters + Charge, K: Key>(
    slots: &mut Slots<S, K>,
    attribution: &Attribution,
    registry: &mut Registry,
) {
    let nobodys = Nobodys::default();
    slots.read(
        |id| attribution.bearer(id).is_some(),
        |owner, gathered| registry.add(nobodys.or_bearer(owner, attribution), gathered),
    );
}

/// Adds the sockets that each owner had at the last scan. Those of a cgroup that has no name yet, or none any
/// more, are left out: levels need not be kept for it.
pub(super) fn count_sockets(
    sockets: &[(Owner, SocketsSample)],
    attribution: &Attribution,
    registry: &mut Registry,
) {
    let nobodys = Nobodys::default();
    registry.forget_sockets();
    for (owner, sockets) in sockets {
        if !matches!(owner, Owner::Cgroup(id) if attribution.bearer(*id).is_none()) {
            registry.add_sockets(nobodys.or_bearer(*owner, attribution), sockets);
        }
    }
}

/// Adds the threads that each owner has now. Those of a cgroup that has no name yet are left out: levels need
/// not be kept for it.
pub(super) fn count_threads(
    threads: &[(Owner, Threads)],
    attribution: &Attribution,
    registry: &mut Registry,
) {
    let nobodys = Nobodys::default();
    for (owner, threads) in threads {
        if !matches!(owner, Owner::Cgroup(id) if attribution.bearer(*id).is_none()) {
            registry.add_threads(nobodys.or_bearer(*owner, attribution), threads);
        }
    }
}

/// Adds who made whom wait. What one of the two has no name for yet is left for the next time.
pub(super) fn charge_debts(
    debts: &mut Debts,
    identity: &Identity,
    attribution: &Attribution,
    registry: &mut Registry,
) {
    let nobodys = Nobodys::default();
    // A cgroup that died moments ago may still be met.
    let has_gone = |owner| matches!(owner, Owner::Cgroup(id) if identity.tree().get(id).is_none());
    let is_nameless = |owner| match owner {
        Owner::Cgroup(id) if attribution.bearer(id).is_none() => {
            !has_gone(owner) || attribution.is_nameless(id)
        }
        _ => false,
    };
    let read = debts.collect(|debtor, ns| {
        let (victim, culprit) = (debtor.victim(), debtor.culprit());
        if is_nameless(victim) || is_nameless(culprit) {
            return Taken::NotYet;
        }
        if ns != 0 {
            let culprit = nobodys.or_bearer(culprit, attribution);
            registry.add_debt(nobodys.or_bearer(victim, attribution), culprit, ns);
        }
        if has_gone(victim) || has_gone(culprit) { Taken::ForGood } else { Taken::Yes }
    });
    if let Err(error) = read {
        error!(%error, "The interference map could not be read.");
    }
    registry.choose_culprits(Instant::now());
}

/// Who bears what is no cgroup's, or of one that nobody knows.
pub(super) struct Nobodys {
    kernel: Bearer,
    unknown: Bearer,
}

impl Default for Nobodys {
    fn default() -> Self {
        Self { kernel: Bearer::kernel(), unknown: Bearer::unknown() }
    }
}

impl Nobodys {
    pub(super) fn or_bearer<'a>(&'a self, owner: Owner, attribution: &'a Attribution) -> &'a Bearer {
        match owner {
            Owner::Kernel => &self.kernel,
            Owner::Unknown => &self.unknown,
            Owner::Cgroup(id) => attribution.bearer(id).unwrap_or(&self.unknown),
        }
    }
}

/// Releases slots whose cgroups a complete walk did not find: births and deaths were both missed, or
/// something of theirs, such as a socket, has outlived them by more than the grace. What comes after that is
/// charged to `unknown` without a slot.
fn release_unheard<S: Counters + Charge, K: Key>(
    slots: &mut Slots<S, K>,
    identity: &Identity,
    attribution: &Attribution,
    registry: &mut Registry,
) {
    if !identity.sees_everything() {
        return;
    }
    let is_unheard = |id: u64| identity.tree().get(id).is_none() && !attribution.is_late(id);
    let unheard: Vec<K> = slots.owners().filter(|(_, id)| is_unheard(*id)).map(|(key, _)| key).collect();
    for key in unheard {
        if let Err(error) = slots.retire(key, |gathered| registry.add(&Bearer::unknown(), gathered)) {
            error!(%error, "The slot of a cgroup that no longer exists could not be freed.");
        }
    }
}
