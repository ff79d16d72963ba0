//! The kernel's events for created, removed and renamed cgroups, from the ring buffer of the `cgroup` object.

use std::os::fd::{AsFd, OwnedFd};

use aya::maps::{MapData, RingBuf};
use sysprobe_common::cgroup::{BORN, CgroupCount, CgroupEvent, DIED, RENAMED};

use crate::bpf::{LoadError, Loaded, Loader, MappedArray, Running};
use crate::plan::Candidate;
use crate::probe::TierSet;

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub id: u64,
    pub change: Change,
    /// The id of its parent.
    pub parent: u64,
    pub name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Born,
    Died,
    Renamed,
}

/// The attached programs and their maps.
pub struct Events {
    loaded: Loaded,
    ring: RingBuf<MapData>,
    counts: MappedArray<u64>,
}

/// Counters of the kernel side. They include events that could not be sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub born: u64,
    pub died: u64,
    pub ring_full: u64,
    pub unreadable: u64,
}

impl Events {
    pub fn start(loader: &Loader, set: &'static TierSet, candidate: &Candidate) -> Result<Self, LoadError> {
        let mut loaded = loader.load(set, &candidate.globals, &[])?;
        let ring = loaded.take_map("CGROUP_EVENTS")?;
        let counts = loaded.map_array("CGROUP_COUNTS")?;
        loaded.attach()?;
        Ok(Self { loaded, ring, counts })
    }

    /// The next event in the ring. A record that cannot be decoded is an error, and is consumed.
    pub fn pop(&mut self) -> Option<Result<Event, Malformed>> {
        self.ring.next().map(|record| decode(&record))
    }

    #[must_use]
    pub fn counts(&self) -> Counts {
        let read = |count: CgroupCount| self.counts.read(count as usize).unwrap_or(0);
        Counts {
            born: read(CgroupCount::Born),
            died: read(CgroupCount::Died),
            ring_full: read(CgroupCount::RingFull),
            unreadable: read(CgroupCount::Unreadable),
        }
    }

    /// A descriptor that becomes readable when there are events.
    pub fn wake_up(&self) -> std::io::Result<OwnedFd> {
        self.ring.as_fd().try_clone_to_owned()
    }
}

impl Running for Events {
    fn loaded(&self) -> &Loaded {
        &self.loaded
    }
}

/// A record of an unknown kind or of the wrong length.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("a cgroup event of {length} bytes and kind {kind}")]
pub struct Malformed {
    length: usize,
    kind: u32,
}

fn decode(record: &[u8]) -> Result<Event, Malformed> {
    let malformed =
        Malformed { length: record.len(), kind: number::<4>(record, 16).map_or(0, u32::from_ne_bytes) };
    let fields = || {
        let id = number(record, 0).map(u64::from_ne_bytes)?;
        let parent = number(record, 8).map(u64::from_ne_bytes)?;
        let length = number(record, 20).map(u32::from_ne_bytes)?;
        let name = record.get(NAME..NAME + length as usize)?;
        Some((id, parent, String::from_utf8_lossy(name).into_owned()))
    };
    let change = match malformed.kind {
        BORN => Change::Born,
        DIED => Change::Died,
        RENAMED => Change::Renamed,
        _ => return Err(malformed),
    };
    let (id, parent, name) = fields().ok_or(malformed)?;
    Ok(Event { id, change, parent, name })
}

/// Where the name begins in a `CgroupEvent`.
const NAME: usize = std::mem::offset_of!(CgroupEvent, name);

fn number<const SIZE: usize>(record: &[u8], at: usize) -> Option<[u8; SIZE]> {
    record.get(at..at + SIZE)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, length: u32, name: &[u8]) -> Vec<u8> {
        let head =
            [&77_u64.to_ne_bytes()[..], &5_u64.to_ne_bytes(), &kind.to_ne_bytes(), &length.to_ne_bytes()];
        [&head.concat()[..], name, &[0; 8]].concat()
    }

    #[test]
    fn an_event_is_its_head_and_the_used_part_of_the_name() {
        let event = decode(&record(BORN, 4, b"pod1")).expect("well formed");
        assert_eq!(event, Event { id: 77, change: Change::Born, parent: 5, name: "pod1".into() });
    }

    #[test]
    fn foreign_records_are_refused() {
        assert_eq!(decode(&record(9, 0, b"")), Err(Malformed { length: 32, kind: 9 }));
        assert_eq!(decode(&record(BORN, 300, b"pod1")), Err(Malformed { length: 36, kind: BORN }));
        assert_eq!(decode(&[0; 5]), Err(Malformed { length: 5, kind: 0 }));
        assert_eq!(decode(&[]), Err(Malformed { length: 0, kind: 0 }));
    }

    #[test]
    fn a_name_need_not_be_utf8() {
        assert_eq!(decode(&record(DIED, 1, b"\xff")).expect("well formed").name, "\u{fffd}");
    }
}
