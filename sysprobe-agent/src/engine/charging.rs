//! Moves the counters of slots to workloads, in the same way for every domain that charges cgroups.

use std::time::Instant;

use sysprobe_common::sched::threads::Threads;
use tracing::error;

use super::attribution::Attribution;
use super::cgroup_tracker::CgroupTracker;
use super::workload::{Owner, Registry};
use crate::cgroup::tree::Cgroup;
use crate::domain::sched::interference::{Interference, Taken};
use crate::domain::slots::{Charge, SlotOwner, SlotTable};
use crate::snapshot::SocketsSample;

/// A deleted cgroup, and what charging its last counters takes.
pub(super) struct Reaping<'a> {
    pub(super) id: u64,
    pub(super) cgroup: &'a Cgroup,
    pub(super) attribution: &'a mut Attribution,
    pub(super) registry: &'a mut Registry,
    pub(super) now: Instant,
}

impl Reaping<'_> {
    /// Charges the last counters of one domain, if necessary when the cgroup's name arrives.
    pub(super) fn charge(&mut self, gathered: Box<dyn Charge>) {
        let Self { id, cgroup, attribution, registry, now } = self;
        if let Some(owner) = attribution.resolve(*id, cgroup, *now) {
            registry.add(owner, gathered.as_ref());
        } else if let Err(gathered) = attribution.adopt(&cgroup.name, gathered, *now) {
            registry.add(&Owner::unknown(), gathered.as_ref());
        }
    }
}

/// Looks up which cgroups have slots.
pub(super) fn list(slots: &mut dyn SlotTable) {
    if let Err(error) = slots.list() {
        error!(%error, "A slot map could not be read.");
    }
}

/// The same before deleted cgroups are reaped, where that is needed to find their slots.
pub(super) fn list_before_reaping(slots: &mut dyn SlotTable) {
    if !slots.has_one_slot_per_cgroup() {
        list(slots);
    }
}

/// Charges everything that the listed slots hold now.
pub(super) fn collect(
    slots: &mut dyn SlotTable,
    tracker: &CgroupTracker,
    attribution: &Attribution,
    registry: &mut Registry,
) {
    charge(slots, tracker, attribution, registry);
    retire_departed(slots, tracker, attribution, registry);
}

/// Charges the last counters of a deleted cgroup and frees its slots.
pub(super) fn reap(slots: &mut dyn SlotTable, reaping: &mut Reaping<'_>) {
    if let Err(error) = slots.release(reaping.id, &mut |gathered| reaping.charge(gathered)) {
        error!(%error, "The slot of a deleted cgroup could not be freed.");
    }
}

/// Resolves the owners of these cgroups for all domains at once: one tree walk finds all new cgroups.
pub(super) fn resolve_all(owners: &[u64], tracker: &mut CgroupTracker, attribution: &mut Attribution) {
    let now = Instant::now();
    // The event of a new cgroup precedes its first slot: after this update, the cgroup of every slot should
    // be known.
    tracker.update(now);
    if owners.iter().any(|id| tracker.may_be_found(*id) && !attribution.is_late(*id)) {
        tracker.look_again(now);
    }
    let tree = tracker.tree();
    for (id, cgroup) in owners.iter().filter_map(|id| Some((*id, tree.get(*id)?))) {
        attribution.resolve(id, cgroup, now);
    }
}

/// Whether a cgroup's owner is known, or will never be, because the agent cannot see the cgroup.
fn is_settled(id: u64, tracker: &CgroupTracker, attribution: &Attribution) -> bool {
    attribution.owner(id).is_some() || tracker.is_elsewhere(id)
}

/// Charges what was counted since the last call. Counts without a known owner stay in their slots, unless the
/// agent cannot see the cgroup: those go to `unknown`.
fn charge(
    slots: &mut dyn SlotTable,
    tracker: &CgroupTracker,
    attribution: &Attribution,
    registry: &mut Registry,
) {
    let owners = Owners::default();
    slots.read(&|id| is_settled(id, tracker, attribution), &mut |owner, gathered| {
        registry.add(owners.of(owner, attribution), gathered);
    });
}

/// Adds the sockets that each owner had at the last scan.
pub(super) fn count_sockets(
    sockets: &[(SlotOwner, SocketsSample)],
    tracker: &CgroupTracker,
    attribution: &Attribution,
    registry: &mut Registry,
) {
    registry.forget_sockets();
    each_settled(sockets, tracker, attribution, |owner, sockets| registry.add_sockets(owner, sockets));
}

/// Adds the threads that each owner has now.
pub(super) fn count_threads(
    threads: &[(SlotOwner, Threads)],
    tracker: &CgroupTracker,
    attribution: &Attribution,
    registry: &mut Registry,
) {
    each_settled(threads, tracker, attribution, |owner, threads| registry.add_threads(owner, threads));
}

/// Passes what each owner has to `add`. What a cgroup has whose name may still arrive is left out: a gauge,
/// unlike a counter, need not be kept for later.
fn each_settled<T>(
    levels: &[(SlotOwner, T)],
    tracker: &CgroupTracker,
    attribution: &Attribution,
    mut add: impl FnMut(&Owner, &T),
) {
    let owners = Owners::default();
    for (owner, level) in levels {
        if !matches!(owner, SlotOwner::Cgroup(id) if !is_settled(*id, tracker, attribution)) {
            add(owners.of(*owner, attribution), level);
        }
    }
}

/// Adds interference: how long one owner waited while another ran. A record waits for the next call while one
/// of its owners has no name yet.
pub(super) fn charge_interference(
    interference: &mut Interference,
    tracker: &CgroupTracker,
    attribution: &Attribution,
    registry: &mut Registry,
) {
    let owners = Owners::default();
    // Records may still refer to a cgroup that was just deleted.
    let has_gone = |owner| matches!(owner, SlotOwner::Cgroup(id) if tracker.has_gone(id));
    let is_nameless = |owner| match owner {
        SlotOwner::Cgroup(id) if attribution.owner(id).is_none() => {
            tracker.tree().get(id).is_some() || attribution.is_nameless(id)
        }
        _ => false,
    };
    let read = interference.collect(|pair, ns| {
        let (victim, culprit) = (pair.victim(), pair.culprit());
        if is_nameless(victim) || is_nameless(culprit) {
            return Taken::NotYet;
        }
        if ns != 0 {
            let culprit = owners.of(culprit, attribution);
            registry.add_interference(owners.of(victim, attribution), culprit, ns);
        }
        if has_gone(victim) || has_gone(culprit) { Taken::ForGood } else { Taken::Yes }
    });
    if let Err(error) = read {
        error!(%error, "The interference map could not be read.");
    }
    registry.choose_culprits(Instant::now());
}

/// The owners of counters that belong to no cgroup or to an unknown one.
pub(super) struct Owners {
    kernel: Owner,
    unknown: Owner,
}

impl Default for Owners {
    fn default() -> Self {
        Self { kernel: Owner::kernel(), unknown: Owner::unknown() }
    }
}

impl Owners {
    pub(super) fn of<'a>(&'a self, owner: SlotOwner, attribution: &'a Attribution) -> &'a Owner {
        match owner {
            SlotOwner::Kernel => &self.kernel,
            SlotOwner::Unknown => &self.unknown,
            SlotOwner::Cgroup(id) => attribution.owner(id).unwrap_or(&self.unknown),
        }
    }
}

/// Retires the slots of deleted cgroups that were not reaped, or have got a slot again since: the agent did
/// not know the cgroup, or something of it, such as a socket, has outlived it by more than the grace period.
/// Later counts go to `unknown` without a slot.
///
/// A cgroup that exists keeps its slot: its tasks have the number, and would count for whatever gets the slot
/// next.
fn retire_departed(
    slots: &mut dyn SlotTable,
    tracker: &CgroupTracker,
    attribution: &Attribution,
    registry: &mut Registry,
) {
    let now = Instant::now();
    let is_gone = |id: u64| tracker.has_departed(id, now) && !attribution.is_late(id);
    if let Err(error) = slots.retire(&is_gone, &mut |gathered| registry.add(&Owner::unknown(), gathered)) {
        error!(%error, "The slot of a cgroup that no longer exists could not be freed.");
    }
}
