//! What programs remember from the beginning of an operation to its end, such as a request in
//! flight. The table has room for all that can be in progress at one time. An entry whose end was
//! not seen would stay for good, so the agent removes old ones once the table fills.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use aya::Pod;
use aya::maps::{HashMap, MapData};
use tracing::{info, warn};

use crate::bpf::{Entries, LoadError, Loaded};
use crate::snapshot::LostUpdates;

/// An entry's value.
pub trait Begun: Pod + Default {
    /// When it began, in `CLOCK_MONOTONIC`.
    fn begun_ns(&self) -> u64;
}

/// A scan visits every bucket of the table, some nanoseconds each.
const SCAN_EVERY: Duration = Duration::from_secs(300);
/// Also where the table was full a moment ago.
const SCAN_AT_MOST: Duration = Duration::from_secs(10);
/// No device or reclaim is this slow, but one that hangs. Its end is counted as one without a beginning.
const STALE_NS: u64 = 600_000_000_000;
/// Entries that are read at once.
const PART: u32 = 512;

pub struct InProgress<V> {
    name: &'static str,
    map: HashMap<MapData, u64, V>,
    /// The same map, for reading it in batches.
    descriptor: OwnedFd,
    room: u32,
    /// When it was last scanned, and how many entries it had.
    scanned: Instant,
    entries: u64,
    /// How many times there was no room, when it was last scanned.
    refused: u64,
    removed: u64,
}

impl<V: Begun> InProgress<V> {
    /// Takes the map of a domain whose programs do not run yet.
    pub fn new(loaded: &mut Loaded, name: &'static str, room: u32) -> Result<Self, LoadError> {
        Ok(Self {
            name,
            descriptor: loaded.map_descriptor(name)?,
            map: loaded.take_map(name)?,
            room,
            scanned: Instant::now(),
            entries: 0,
            refused: 0,
            removed: 0,
        })
    }

    /// Scans the table when it is time to. `refused` says how many times there has been no room.
    pub fn update(&mut self, refused: u64, now: Instant, now_ns: u64) {
        if now.duration_since(self.scanned) < pause(refused > self.refused) {
            return;
        }
        (self.scanned, self.refused) = (now, refused);
        if let Err(error) = self.scan(now_ns) {
            warn!(map = self.name, %error, "A kernel map could not be scanned.");
        }
    }

    fn scan(&mut self, now_ns: u64) -> io::Result<()> {
        let (mut entries, mut stale) = (0, Vec::new());
        Entries::with_capacity(PART).visit(self.descriptor.as_fd(), |key: u64, value: V| {
            entries += 1;
            if is_stale(&value, now_ns) {
                stale.push(key);
            }
        })?;
        if entries > u64::from(self.room) / 2 {
            let removed = stale.into_iter().filter(|key| self.remove(*key, now_ns)).count() as u64;
            info!(map = self.name, entries, removed, "A kernel map was more than half full.");
            self.removed += removed;
            entries -= removed;
        }
        self.entries = entries;
        Ok(())
    }

    /// Unless the same key has begun anew meanwhile.
    fn remove(&mut self, key: u64, now_ns: u64) -> bool {
        self.map.get(&key, 0).is_ok_and(|value| is_stale(&value, now_ns)) && self.map.remove(&key).is_ok()
    }

    /// Forgets all, while no program runs.
    pub fn clear(&mut self) {
        let keys: Vec<u64> = self.map.keys().filter_map(Result::ok).collect();
        self.entries = keys.into_iter().filter(|key| self.map.remove(key).is_err()).count() as u64;
    }

    /// How many entries there were when it was last scanned.
    #[must_use]
    pub const fn entries(&self) -> u64 {
        self.entries
    }

    /// Adds those that have been removed because their end was not seen to the losses for this reason.
    pub fn add_removed(
        &self,
        losses: impl Iterator<Item = LostUpdates>,
        reason: &'static str,
    ) -> impl Iterator<Item = LostUpdates> {
        losses.map(move |mut lost| {
            if lost.reason == reason {
                lost.count += self.removed;
            }
            lost
        })
    }
}

/// How long there is between two scans.
const fn pause(was_full: bool) -> Duration {
    if was_full { SCAN_AT_MOST } else { SCAN_EVERY }
}

fn is_stale(value: &impl Begun, now_ns: u64) -> bool {
    now_ns.saturating_sub(value.begun_ns()) > STALE_NS
}
