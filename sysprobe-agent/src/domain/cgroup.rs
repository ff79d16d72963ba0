//! Cgroups: starts the BPF programs, and reads their events for created, removed and renamed cgroups from a
//! ring buffer.

use std::mem::offset_of;
use std::os::fd::{AsFd, OwnedFd};

use aya::maps::{MapData, RingBuf};
use sysprobe_common::cgroup::{BORN, CgroupCount, CgroupEvent, DIED, KILLS_UNKNOWN, RENAMED};

use crate::bpf::{Lanes, LoadError, Loaded, Loader, Running};
use crate::cgroup::event::{Change, Event};
use crate::plan::Candidate;
use crate::probe::ProgramSet;

/// The attached programs and their maps.
pub struct Events {
    loaded: Loaded,
    ring: RingBuf<MapData>,
    counts: Lanes,
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
    pub fn start(
        loader: &Loader,
        set: &'static ProgramSet,
        candidate: &Candidate,
    ) -> Result<Self, LoadError> {
        let mut loaded = loader.load(set, &candidate.globals, &[])?;
        let ring = loaded.take_map("CGROUP_EVENTS")?;
        let counts = loaded.map_lanes("CGROUP_COUNTS")?;
        loaded.attach()?;
        Ok(Self { loaded, ring, counts })
    }

    /// The next event in the ring. A record that cannot be decoded is an error, and is consumed.
    pub fn pop(&mut self) -> Option<Result<Event, Malformed>> {
        self.ring.next().map(|record| decode(&record))
    }

    #[must_use]
    pub fn counts(&self) -> Counts {
        let read = |count: CgroupCount| self.counts.total(count as u32);
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
    let kind = number(record, offset_of!(CgroupEvent, kind)).map_or(0, u32::from_ne_bytes);
    well_formed(record, kind).ok_or(Malformed { length: record.len(), kind })
}

fn well_formed(record: &[u8], kind: u32) -> Option<Event> {
    let long = |at| number(record, at).map(u64::from_ne_bytes);
    let oom_kills = long(offset_of!(CgroupEvent, oom_kills))?;
    let change = match kind {
        BORN => Change::Born,
        DIED => Change::Died { oom_kills: Some(oom_kills).filter(|kills| *kills != KILLS_UNKNOWN) },
        RENAMED => Change::Renamed,
        _ => return None,
    };
    let length = number(record, offset_of!(CgroupEvent, length)).map(u32::from_ne_bytes)?;
    let name = record.get(NAME..NAME + length as usize)?;
    Some(Event {
        id: long(offset_of!(CgroupEvent, id))?,
        change,
        parent: long(offset_of!(CgroupEvent, parent))?,
        name: String::from_utf8_lossy(name).into_owned(),
    })
}

/// Where the name begins in a `CgroupEvent`.
const NAME: usize = offset_of!(CgroupEvent, name);

fn number<const SIZE: usize>(record: &[u8], at: usize) -> Option<[u8; SIZE]> {
    record.get(at..at + SIZE)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, length: u32, name: &[u8]) -> Vec<u8> {
        record_with(3, kind, length, name)
    }

    fn record_with(oom_kills: u64, kind: u32, length: u32, name: &[u8]) -> Vec<u8> {
        let longs = [77, 5, oom_kills].map(u64::to_ne_bytes).concat();
        [&longs[..], &kind.to_ne_bytes(), &length.to_ne_bytes(), name, &[0; 8]].concat()
    }

    #[test]
    fn an_event_is_its_head_and_the_used_part_of_the_name() {
        let event = decode(&record(BORN, 4, b"pod1")).expect("well formed");
        assert_eq!(event, Event { id: 77, change: Change::Born, parent: 5, name: "pod1".into() });
    }

    #[test]
    fn a_removed_cgroup_says_how_many_kills_it_had_if_it_is_known() {
        for (told, oom_kills) in [(3, Some(3)), (0, Some(0)), (KILLS_UNKNOWN, None)] {
            let event = decode(&record_with(told, DIED, 4, b"pod1")).expect("well formed");
            assert_eq!(event.change, Change::Died { oom_kills });
        }
    }

    #[test]
    fn foreign_records_are_refused() {
        assert_eq!(decode(&record(9, 0, b"")), Err(Malformed { length: 40, kind: 9 }));
        assert_eq!(decode(&record(BORN, 300, b"pod1")), Err(Malformed { length: 44, kind: BORN }));
        assert_eq!(decode(&[0; 5]), Err(Malformed { length: 5, kind: 0 }));
        assert_eq!(decode(&[]), Err(Malformed { length: 0, kind: 0 }));
    }

    #[test]
    fn a_name_need_not_be_utf8() {
        assert_eq!(decode(&record(DIED, 1, b"\xff")).expect("well formed").name, "\u{fffd}");
    }
}
