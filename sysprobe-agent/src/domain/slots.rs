//! The counters that a domain's programs keep per cgroup, in slots: which cgroup has which slots, what each
//! slot counted since it was last read, and how a slot is freed.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use aya::Pod;
use aya::maps::{HashMap, MapData, MapError, Stack};
use aya_obj::generated::{BPF_EXIST, BPF_NOEXIST};
use sysprobe_common::cgroup::KERNEL;
use sysprobe_common::lanes::WORDS;
use sysprobe_common::slot::{self, room};

use crate::bpf::{Entries, Lanes, LoadError, Loaded, MappedArray, Plain};
use crate::plan::Shards;
use crate::probe::SlotMaps;
use crate::snapshot::LostUpdates;

mod table;

pub use table::{Charge, SlotTable};

/// The counters of one slot. Each wraps separately, so differences are right across a wrap.
pub trait Counters: Plain {
    const ZERO: Self;

    /// Combines each number with the other's, the 64-bit ones by `wide` and the 32-bit ones by `narrow`.
    fn combine(&mut self, other: &Self, wide: fn(u64, u64) -> u64, narrow: fn(u32, u32) -> u32);

    /// Of the counters of [`slot::NONE_FREE`]: the events that are losses. The programs count only look-ups.
    fn without_slot(&self) -> u64 {
        0
    }
}

/// The key of a slot.
pub trait Key: Pod + Default {
    /// The key of a cgroup's slot; `None` if a cgroup may have several.
    fn of_cgroup(id: u64) -> Option<Self>;
    fn owner(&self) -> SlotOwner;
}

/// A cgroup's id, where each cgroup has one slot.
impl Key for u64 {
    fn of_cgroup(id: u64) -> Option<Self> {
        Some(id)
    }

    fn owner(&self) -> SlotOwner {
        SlotOwner::Cgroup(*self)
    }
}

/// The owner of a slot's counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotOwner {
    Cgroup(u64),
    Kernel,
    Unknown,
}

impl SlotOwner {
    /// The owner that the kernel side stores as a number.
    #[must_use]
    pub const fn of_number(cgroup: u64) -> Self {
        match cgroup {
            0 => Self::Unknown,
            KERNEL => Self::Kernel,
            id => Self::Cgroup(id),
        }
    }
}

/// Owners without a cgroup, and their slots.
const FIXED: [(SlotOwner, u32); 3] = [
    (SlotOwner::Unknown, slot::UNKNOWN),
    (SlotOwner::Unknown, slot::NONE_FREE),
    (SlotOwner::Kernel, slot::KERNEL),
];

/// Maximum number of keys of deleted cgroups that stay in the map with [`slot::UNKNOWN`].
const GONE: usize = 64;

/// The same for this many free slots. These keys take room in the map that new cgroups need.
fn gone_for(free: usize) -> usize {
    GONE.min(free / 2)
}

pub struct Slots<S, K = u64> {
    maps: SlotMaps,
    stats: MappedArray<S>,
    known: HashMap<MapData, K, u32>,
    /// The same map, for reading it in batches.
    descriptor: OwnedFd,
    free: Stack<MapData, u32>,
    /// Words of `slot::room`.
    room: MappedArray<u64>,
    entries: Entries<K>,
    shards: Shards,
    /// What each slot held when it was last read; `None` if it has not been read.
    last: Vec<Option<Box<S>>>,
    /// Keys of deleted cgroups, the oldest first.
    gone: VecDeque<K>,
    /// See [`Counters::without_slot`].
    without_slot: u64,
}

impl<S: Counters, K: Key> Slots<S, K> {
    /// Takes the maps of a domain whose programs do not run yet, and fills the stack of free slots.
    pub fn new(loaded: &mut Loaded, maps: SlotMaps, shards: Shards) -> Result<Self, LoadError> {
        let slots = loaded.map_entries(maps.known)?;
        let mut all = Self {
            maps,
            stats: loaded.map_growing_array(maps.stats)?,
            descriptor: loaded.map_descriptor(maps.known)?,
            known: loaded.take_map(maps.known)?,
            free: loaded.take_map(maps.free)?,
            room: loaded.map_array(maps.room)?,
            entries: Entries::with_capacity(slots),
            shards,
            last: std::iter::repeat_with(|| None).take(slots as usize).collect(),
            gone: VecDeque::new(),
            without_slot: 0,
        };
        // The stack returns what was pushed last: low numbers come first, to keep the used memory together.
        for slot in (slot::FIRST_FREE..slots).rev() {
            all.give_back(slot)?;
        }
        Ok(all)
    }

    fn give_back(&mut self, slot: u32) -> Result<(), LoadError> {
        self.free.push(slot, 0).map_err(|error| failed(self.maps.free, &error))?;
        // After the push: programs that have found no slot look again when this changes.
        self.room.add(room::CHANGES as usize, 1);
        Ok(())
    }

    /// Looks up the slots in use, for `read`.
    pub fn list(&mut self) -> io::Result<()> {
        self.entries.read(self.descriptor.as_fd())?;
        self.forget_gone().map_err(io::Error::other)?;
        let highest = self.in_slots().map(|(_, slot)| slot).max().unwrap_or(slot::KERNEL);
        self.reach(highest)
    }

    /// The listed keys that have slots of their own.
    fn in_slots(&self) -> impl Iterator<Item = (K, u32)> {
        self.entries.iter().filter(|(_, slot)| *slot >= slot::FIRST_FREE)
    }

    fn reach(&mut self, slot: u32) -> io::Result<()> {
        self.stats.reach(elements(self.shards, slot).end - 1)
    }

    /// Passes what each listed slot counted since the last read to `take`, if `knows` its cgroup; other slots
    /// keep their counts. No slot may be released between `list` and this.
    pub fn read(&mut self, knows: impl Fn(u64) -> bool, mut take: impl FnMut(SlotOwner, &S)) {
        for (owner, slot) in FIXED {
            let counted = gathered(&self.stats, self.shards, &mut self.last, slot);
            if slot == slot::NONE_FREE {
                self.without_slot += counted.without_slot();
            }
            take(owner, &counted);
        }
        for (key, slot) in self.entries.iter().filter(|(_, slot)| *slot >= slot::FIRST_FREE) {
            let owner = key.owner();
            if !matches!(owner, SlotOwner::Cgroup(id) if !knows(id)) {
                take(owner, &gathered(&self.stats, self.shards, &mut self.last, slot));
            }
        }
    }

    /// Frees the slot of a deleted cgroup's key, and passes its last counts to `take`.
    pub fn release(&mut self, key: K, take: impl FnOnce(&S)) -> Result<(), LoadError> {
        // Most cgroups have no activity of their own, and so no slot.
        let Some(slot) = self.slot_of(key)?.filter(|slot| *slot >= slot::FIRST_FREE) else { return Ok(()) };
        self.known.remove(&key).map_err(|error| failed(self.maps.known, &error))?;
        self.empty(slot, take)
    }

    /// The same for a cgroup that does not come back. Activity of its leftovers, such as a socket with data
    /// to send, is charged to `unknown` from now on. Otherwise their slot would have to be released again and
    /// again.
    pub fn retire(&mut self, key: K, take: impl FnOnce(&S)) -> Result<(), LoadError> {
        let slot = loop {
            let slot = self.slot_of(key)?;
            let flags = if slot.is_some() { BPF_EXIST } else { BPF_NOEXIST };
            match self.known.insert(key, slot::UNKNOWN, flags.into()) {
                Ok(()) => break slot,
                // A program has just given it a slot, which would never become free again.
                Err(error) if slot.is_none() && is_taken(&error) => {}
                Err(error) => return Err(failed(self.maps.known, &error)),
            }
        };
        self.gone.push_back(key);
        if let Some(slot) = slot.filter(|slot| *slot >= slot::FIRST_FREE) {
            self.empty(slot, take)?;
        }
        self.forget_gone()
    }

    /// The slot in a key's entry, if it has one.
    fn slot_of(&self, key: K) -> Result<Option<u32>, LoadError> {
        match self.known.get(&key, 0) {
            Ok(slot) => Ok(Some(slot)),
            Err(MapError::KeyNotFound) => Ok(None),
            Err(error) => Err(failed(self.maps.known, &error)),
        }
    }

    /// Frees a slot that no key has any more, and passes its last counts to `take`.
    fn empty(&mut self, slot: u32, take: impl FnOnce(&S)) -> Result<(), LoadError> {
        let unmapped = |error: io::Error| LoadError::Map { map: self.maps.stats, reason: error.to_string() };
        self.stats.reach(elements(self.shards, slot).end - 1).map_err(unmapped)?;
        take(&gathered(&self.stats, self.shards, &mut self.last, slot));
        for element in elements(self.shards, slot) {
            self.stats.write(element, S::ZERO);
        }
        if let Some(last) = self.last.get_mut(slot as usize) {
            *last = None;
        }
        self.give_back(slot)
    }

    /// Leaves no more keys of deleted cgroups in the map than there was room for when it was last listed.
    fn forget_gone(&mut self) -> Result<(), LoadError> {
        let free = self.last.len().saturating_sub(slot::FIRST_FREE as usize + self.in_slots().count());
        while self.gone.len() > gone_for(free)
            && let Some(oldest) = self.gone.pop_front()
        {
            self.known.remove(&oldest).map_err(|error| failed(self.maps.known, &error))?;
            // Programs that have found the map full look again.
            self.room.add(room::CHANGES as usize, 1);
        }
        Ok(())
    }

    /// The owners and their slots as last listed, including owners without a cgroup.
    pub fn all(&self) -> impl Iterator<Item = (SlotOwner, u32)> {
        FIXED.into_iter().chain(self.in_slots().map(|(key, slot)| (key.owner(), slot)))
    }

    /// The keys that had slots when they were last listed, with their cgroups.
    pub fn owners(&self) -> impl Iterator<Item = (K, u64)> {
        self.in_slots().filter_map(|(key, _)| match key.owner() {
            SlotOwner::Cgroup(id) => Some((key, id)),
            SlotOwner::Kernel | SlotOwner::Unknown => None,
        })
    }

    /// The keys of a cgroup.
    #[must_use]
    pub fn keys_of(&self, cgroup: u64) -> Vec<K> {
        self.owners().filter(|(_, id)| *id == cgroup).map(|(key, _)| key).collect()
    }

    /// Events in [`slot::NONE_FREE`] up to the last read: see [`Counters::without_slot`].
    #[must_use]
    pub const fn without_slot(&self) -> u64 {
        self.without_slot
    }

    /// The map of slots, and how many were in use when they were last listed.
    #[must_use]
    pub fn in_use(&self) -> (&'static str, u64) {
        (self.maps.known, self.in_slots().count() as u64)
    }
}

/// A domain's losses; `reasons` are in the order of the counters.
pub(crate) fn losses<const COUNT: usize>(
    domain: &str,
    counts: &Lanes,
    reasons: [&'static str; COUNT],
) -> impl Iterator<Item = LostUpdates> {
    const { assert!(COUNT <= WORDS as usize) };
    (0..).zip(reasons).map(move |(number, reason)| LostUpdates {
        domain: domain.into(),
        reason: reason.into(),
        count: counts.total(number),
    })
}

/// The same losses, with more of one reason: what the agent has noticed itself.
pub(crate) fn with_more(
    losses: impl Iterator<Item = LostUpdates>,
    reason: &'static str,
    more: u64,
) -> impl Iterator<Item = LostUpdates> {
    losses.map(move |mut lost| {
        if lost.reason == reason {
            lost.count += more;
        }
        lost
    })
}

/// Whether there is an entry already.
fn is_taken(error: &MapError) -> bool {
    matches!(error, MapError::SyscallError(error) if error.io_error.kind() == io::ErrorKind::AlreadyExists)
}

fn failed(map: &'static str, error: &MapError) -> LoadError {
    LoadError::Map { map, reason: error.to_string() }
}

fn elements(shards: Shards, slot: u32) -> std::ops::Range<usize> {
    let first = (slot * shards.count) as usize;
    first..first + shards.count as usize
}

/// What a slot counted since the last read, summed over its shards.
fn gathered<S: Counters>(
    stats: &MappedArray<S>,
    shards: Shards,
    last: &mut [Option<Box<S>>],
    slot: u32,
) -> S {
    let mut total = S::ZERO;
    for element in elements(shards, slot) {
        if let Some(shard) = stats.read(element) {
            total.combine(&shard, u64::wrapping_add, u32::wrapping_add);
        }
    }
    let Some(last) = last.get_mut(slot as usize) else { return S::ZERO };
    let mut difference = total;
    if let Some(last) = last.as_deref() {
        difference.combine(last, u64::wrapping_sub, u32::wrapping_sub);
    }
    match last {
        Some(last) => **last = total,
        None => *last = Some(Box::new(total)),
    }
    difference
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_deleted_cgroups_leave_room_for_new_ones() {
        assert_eq!([2045, 129, 128, 20, 1, 0].map(gone_for), [64, 64, 64, 10, 0, 0]);
    }
}
