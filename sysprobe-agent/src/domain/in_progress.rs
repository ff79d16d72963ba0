//! Operations in progress, such as requests in flight, as BPF programs remember them from begin to end. The
//! table has room for all operations that can be in progress at one time. An entry whose end was missed would
//! stay forever, so the agent removes stale ones once the table is more than half full.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use aya::Pod;
use aya::maps::{HashMap, MapData};
use tracing::{info, warn};

use crate::bpf::{Entries, LoadError, Loaded};

/// An entry's value.
pub trait Begun: Pod + Default {
    /// Start time in nanoseconds of `CLOCK_MONOTONIC`.
    fn begun_ns(&self) -> u64;
}

/// Scans are rare because each visits every bucket of the table, at some nanoseconds per bucket.
const SCAN_EVERY: Duration = Duration::from_secs(300);
/// Minimum interval, also while the table keeps filling up.
const SCAN_INTERVAL_MIN: Duration = Duration::from_secs(10);
/// Only a hung device or reclaim takes this long. If it ends after all, the end is counted as one without a
/// begin.
const STALE_NS: u64 = 600_000_000_000;
/// Entries read per batch.
const PART: u32 = 512;

pub struct InProgress<V> {
    name: &'static str,
    map: HashMap<MapData, u64, V>,
    /// The same map, for reading it in batches.
    descriptor: OwnedFd,
    room: u32,
    /// The time of the last scan, and the number of entries it found.
    scanned: Instant,
    entries: u64,
    /// The number of insertions that found no room, as of the last scan.
    refused: u64,
    removed: u64,
}

impl<V: Begun> InProgress<V> {
    /// Takes the map of a domain whose programs do not run yet.
    pub fn new(loaded: &mut Loaded, name: &'static str) -> Result<Self, LoadError> {
        Ok(Self {
            name,
            room: loaded.map_entries(name)?,
            descriptor: loaded.map_descriptor(name)?,
            map: loaded.take_map(name)?,
            scanned: Instant::now(),
            entries: 0,
            refused: 0,
            removed: 0,
        })
    }

    /// Scans the table if a scan is due. `refused` is the number of insertions that have found no room so
    /// far.
    pub fn update(&mut self, refused: u64, now: Instant, now_ns: u64) {
        if now.duration_since(self.scanned) < pause(refused > self.refused) {
            return;
        }
        (self.scanned, self.refused) = (now, refused);
        if let Err(error) = self.scan(now_ns) {
            warn!(map = self.name, %error, "A BPF map could not be scanned.");
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
            info!(
                map = self.name,
                entries, removed, "A BPF map was over half full; looked for stale entries."
            );
            self.removed += removed;
            entries -= removed;
        }
        self.entries = entries;
        Ok(())
    }

    /// Removes an entry, unless its key has been reused meanwhile.
    fn remove(&mut self, key: u64, now_ns: u64) -> bool {
        self.map.get(&key, 0).is_ok_and(|value| is_stale(&value, now_ns)) && self.map.remove(&key).is_ok()
    }

    /// Removes all entries; only to be called while no program runs.
    pub fn clear(&mut self) {
        let keys: Vec<u64> = self.map.keys().filter_map(Result::ok).collect();
        self.entries = keys.into_iter().filter(|key| self.map.remove(key).is_err()).count() as u64;
    }

    /// The map, and the number of its entries at the last scan.
    #[must_use]
    pub const fn in_use(&self) -> (&'static str, u64) {
        (self.name, self.entries)
    }

    /// The number of entries that were removed because their end was missed.
    #[must_use]
    pub const fn removed(&self) -> u64 {
        self.removed
    }
}

/// Interval between two scans.
const fn pause(was_full: bool) -> Duration {
    if was_full { SCAN_INTERVAL_MIN } else { SCAN_EVERY }
}

fn is_stale(value: &impl Begun, now_ns: u64) -> bool {
    now_ns.saturating_sub(value.begun_ns()) > STALE_NS
}
