//! From the slots of a domain to workloads: the same for every domain that charges cgroups.

use std::time::Instant;

use tracing::error;

use super::attribution::Attribution;
use super::identity::Identity;
use crate::cgroup::name::Name;
use crate::slots::{Counters, Key, Owner, Slots};
use crate::workload::{Bearer, Charge, Registry};

/// Looks up which cgroups have slots.
pub(super) fn list<S: Counters, K: Key>(slots: &mut Slots<S, K>) {
    if let Err(error) = slots.list() {
        error!(%error, "The map of slots could not be read.");
    }
}

/// Finds out whose these cgroups are, all domains' at once: there is one walk for those that nobody has heard of.
pub(super) fn settle(owners: &[u64], identity: &mut Identity, attribution: &mut Attribution) {
    let now = Instant::now();
    // A cgroup's birth is told before its first task can get a slot: after this, every slot should have a name.
    identity.update(now);
    if owners.iter().any(|id| identity.tree().get(*id).is_none()) {
        identity.look_again(now);
    }
    let tree = identity.tree();
    for (id, cgroup) in owners.iter().filter_map(|id| Some((*id, tree.get(*id)?))) {
        attribution.settle(id, &cgroup.name, now);
    }
}

/// Takes in everything that a domain's listed slots hold now.
pub(super) fn collect<S: Counters + Charge, K: Key>(
    slots: &mut Slots<S, K>,
    identity: &Identity,
    attribution: &Attribution,
    registry: &mut Registry,
) {
    charge(slots, attribution, registry);
    release_unheard(slots, identity, registry);
}

/// Charges what was gathered since the last time. What belongs to nobody yet stays where it is.
fn charge<S: Counters + Charge, K: Key>(
    slots: &mut Slots<S, K>,
    attribution: &Attribution,
    registry: &mut Registry,
) {
    slots.read(
        |id| attribution.bearer(id).is_some(),
        |owner, gathered| match owner {
            Owner::Kernel => registry.add(&Bearer::kernel(), gathered),
            Owner::Unknown => registry.add(&Bearer::unknown(), gathered),
            Owner::Cgroup(id) => {
                let unknown = Bearer::unknown();
                registry.add(attribution.bearer(id).unwrap_or(&unknown), gathered);
            }
        },
    );
}

/// Releases slots whose cgroups a complete walk did not find: births and deaths were both missed, so nobody can be charged.
fn release_unheard<S: Counters + Charge, K: Key>(
    slots: &mut Slots<S, K>,
    identity: &Identity,
    registry: &mut Registry,
) {
    if !identity.sees_everything() {
        return;
    }
    let unheard = slots.owners().filter(|(_, id)| identity.tree().get(*id).is_none());
    let unheard: Vec<K> = unheard.map(|(key, _)| key).collect();
    for key in unheard {
        if let Err(error) = slots.release(key, |gathered| registry.add(&Bearer::unknown(), gathered)) {
            error!(%error, "The slot of a cgroup that has gone is lost.");
        }
    }
}

/// Books the last numbers that a dead cgroup has under a key, and frees their slot.
pub(super) fn bury<S: Counters + Charge + 'static, K: Key>(
    (slots, key): (&mut Slots<S, K>, K),
    (id, name): (u64, &Name),
    attribution: &mut Attribution,
    registry: &mut Registry,
    now: Instant,
) {
    let released = slots.release(key, |gathered| {
        if let Some(bearer) = attribution.settle(id, name, now) {
            registry.add(bearer, gathered);
        } else if !attribution.adopt(name, Box::new(*gathered), now) {
            registry.add(&Bearer::unknown(), gathered);
        }
    });
    if let Err(error) = released {
        error!(%error, "The slot of a dead cgroup is lost.");
    }
}
