//! The kernel's own word on births and deaths, from the ring buffer of the `cgroup` object.

use std::os::fd::{AsFd, OwnedFd};

use aya::maps::{MapData, RingBuf};
use sysprobe_common::cgroup::{BORN, CgroupCount, CgroupEvent, DIED, RENAMED};

use crate::bpf::{LoadError, Loaded, Loader, MappedArray};
use crate::probe::Probe;

/// One event, with its path where the kernel gave one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub id: u64,
    pub change: Change,
    pub path: String,
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

/// What the kernel side has counted, whether or not the event could be sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub born: u64,
    pub died: u64,
    pub ring_full: u64,
}

impl Events {
    pub fn start(
        loader: &Loader,
        probe: &'static Probe,
        globals: &[(&'static str, u32)],
    ) -> Result<Self, LoadError> {
        let mut loaded = loader.load(probe, globals, &[])?;
        let ring = loaded.take_map("CGROUP_EVENTS")?;
        let counts = loaded.map_array("CGROUP_COUNTS")?;
        loaded.attach()?;
        Ok(Self { loaded, ring, counts })
    }

    /// The next event that waits in the ring; one that cannot be understood is an error, and consumed.
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
        }
    }

    /// A descriptor that becomes readable when events wait.
    pub fn wake_up(&self) -> std::io::Result<OwnedFd> {
        self.ring.as_fd().try_clone_to_owned()
    }

    #[must_use]
    pub const fn loaded(&self) -> &Loaded {
        &self.loaded
    }
}

/// A record that this version of the agent did not write.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("a cgroup event of {length} bytes and kind {kind}")]
pub struct Malformed {
    length: usize,
    kind: u32,
}

fn decode(record: &[u8]) -> Result<Event, Malformed> {
    const HEAD: usize = size_of::<CgroupEvent>();
    let word =
        |at: usize| record.get(at..at + 4).and_then(|bytes| Some(u32::from_ne_bytes(bytes.try_into().ok()?)));
    let kind = word(8).unwrap_or(0);
    let malformed = Malformed { length: record.len(), kind };
    let Some((head, path)) = record.split_at_checked(HEAD) else { return Err(malformed) };
    let Some(id) = head.first_chunk::<8>().map(|bytes| u64::from_ne_bytes(*bytes)) else {
        return Err(malformed);
    };
    let change = match kind {
        BORN => Change::Born,
        DIED => Change::Died,
        RENAMED => Change::Renamed,
        _ => return Err(malformed),
    };
    Ok(Event { id, change, path: String::from_utf8_lossy(path).into_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(id: u64, kind: u32, path: &[u8]) -> Vec<u8> {
        [&id.to_ne_bytes()[..], &kind.to_ne_bytes(), &3_u32.to_ne_bytes(), path].concat()
    }

    #[test]
    fn an_event_is_its_head_and_the_rest_as_path() {
        let event = decode(&record(77, BORN, b"/kubepods/pod1")).expect("well formed");
        assert_eq!(event, Event { id: 77, change: Change::Born, path: "/kubepods/pod1".into() });
    }

    #[test]
    fn foreign_records_are_refused() {
        assert_eq!(decode(&record(1, 9, b"/")), Err(Malformed { length: 17, kind: 9 }));
        assert_eq!(decode(&[0; 5]), Err(Malformed { length: 5, kind: 0 }));
        assert_eq!(decode(&[]), Err(Malformed { length: 0, kind: 0 }));
    }

    #[test]
    fn a_path_need_not_be_utf8() {
        let event = decode(&record(1, DIED, b"/\xff")).expect("well formed");
        assert_eq!(event.path, "/\u{fffd}");
    }
}
