//! Interference records as the programs keep them: how long one cgroup waited while another ran, added up
//! since the last read. The map is kept small: records of deleted cgroups are removed, and idle ones when it
//! fills.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use aya::Pod;
use aya::maps::{HashMap as BpfHashMap, MapData};
use sysprobe_common::sched;
use sysprobe_common::sched::timeline::UNKNOWN_VICTIM;
use tracing::warn;

use crate::bpf::{Entries, LoadError, Loaded};
use crate::domain::slots::SlotOwner;

const MAP: &str = "SCHED_INTERFERENCE";

/// The kernel side's key.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Pair(sched::Pair);

// SAFETY: integers without padding.
unsafe impl Pod for Pair {}

impl Pair {
    /// The owner that waited.
    #[must_use]
    pub const fn victim(self) -> SlotOwner {
        match self.0.victim {
            UNKNOWN_VICTIM => SlotOwner::Unknown,
            victim => SlotOwner::of_number(victim),
        }
    }

    /// The owner that ran meanwhile.
    #[must_use]
    pub const fn culprit(self) -> SlotOwner {
        SlotOwner::of_number(self.0.culprit)
    }
}

/// The result of presenting a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It was charged.
    Yes,
    /// It has to be presented again: an owner is not known yet.
    NotYet,
    /// It was charged, and one of its owners will not return.
    ForGood,
}

pub struct Interference {
    map: BpfHashMap<MapData, Pair, u64>,
    /// The same map, for reading it in batches.
    descriptor: OwnedFd,
    entries: Entries<Pair, u64>,
    /// Idle records are removed if there are at least this many.
    crowded: usize,
    /// The part of each record that has been charged.
    taken: HashMap<Pair, u64>,
}

impl Interference {
    pub fn new(loaded: &mut Loaded) -> Result<Self, LoadError> {
        let room = loaded.map_entries(MAP)?;
        Ok(Self {
            descriptor: loaded.map_descriptor(MAP)?,
            map: loaded.take_map(MAP)?,
            entries: Entries::with_capacity(room),
            crowded: room as usize / 4 * 3,
            taken: HashMap::new(),
        })
    }

    /// Passes the increase of each record to `take`, in nanoseconds.
    pub fn collect(&mut self, mut take: impl FnMut(Pair, u64) -> Taken) -> io::Result<()> {
        self.entries.read(self.descriptor.as_fd())?;
        let is_crowded = self.entries.len() >= self.crowded;
        let mut removed = Vec::new();
        for (pair, total) in self.entries.iter() {
            let taken = self.taken.entry(pair).or_insert(0);
            let added = total.saturating_sub(*taken);
            let verdict = take(pair, added);
            if verdict != Taken::NotYet {
                *taken = total;
            }
            if verdict == Taken::ForGood || (is_crowded && added == 0) {
                removed.push(pair);
            }
        }
        for pair in removed {
            self.remove(pair, &mut take);
        }
        Ok(())
    }

    /// Also charges what was added since the record was read.
    fn remove(&mut self, pair: Pair, mut take: impl FnMut(Pair, u64) -> Taken) {
        let taken = self.taken.remove(&pair).unwrap_or(0);
        if let Ok(total) = self.map.get(&pair, 0)
            && total > taken
        {
            take(pair, total - taken);
        }
        if let Err(error) = self.map.remove(&pair) {
            warn!(%error, "An unused interference record could not be removed.");
        }
    }

    /// The map of records, and how many there were when it was last read.
    #[must_use]
    pub const fn in_use(&self) -> (&'static str, u64) {
        (MAP, self.entries.len() as u64)
    }
}
