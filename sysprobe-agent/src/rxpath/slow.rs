//! What took long, one by one: tells the kernel side from how long on somebody wants to know of each, for as long as somebody does, and
//! keeps the last of them.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use aya::maps::{MapData, RingBuf};
use sysprobe_common::rxpath::Point;
use sysprobe_common::rxpath::slow::Slow;
use sysprobe_common::sched::Stretch;

use crate::bpf::{LoadError, Loaded, MappedArray};

/// More than anybody reads.
const KEPT: usize = 1024;

pub struct SlowRequests {
    ring: RingBuf<MapData>,
    from: MappedArray<u64>,
    /// From how many nanoseconds on somebody asks for each, and until when.
    leases: Vec<(u64, Instant)>,
    recent: VecDeque<Slow>,
}

impl SlowRequests {
    /// Takes its maps; they are there before any program runs.
    pub(super) fn new(loaded: &mut Loaded) -> Result<Self, LoadError> {
        let ring = loaded.take_map("RXPATH_SLOW")?;
        let from = loaded.map_array("RXPATH_SLOW_FROM")?;
        Ok(Self { ring, from, leases: Vec::new(), recent: VecDeque::new() })
    }

    /// Has each told that takes `from_ns` or longer, for a while.
    pub fn ask(&mut self, from_ns: u64, lease: Duration, now: Instant) {
        let until = now + lease;
        match self.leases.iter_mut().find(|(from, _)| *from == from_ns) {
            Some((_, end)) => *end = until.max(*end),
            None => self.leases.push((from_ns, until)),
        }
        self.update(now);
    }

    /// Takes what has come, and lets go what nobody asks for any more.
    pub fn update(&mut self, now: Instant) {
        self.leases.retain(|(_, until)| *until > now);
        let from = self.leases.iter().map(|(from, _)| *from).min();
        // 0 would be nothing.
        self.from.write(0, from.map_or(0, |from| from.max(1)));
        while let Some(record) = self.ring.next() {
            self.recent.extend(decode(&record));
        }
        let superfluous =
            if from.is_none() { self.recent.len() } else { self.recent.len().saturating_sub(KEPT) };
        self.recent.drain(..superfluous);
    }

    /// Those of the last that took `from_ns` or longer, the oldest first.
    pub fn recent(&self, from_ns: u64) -> impl Iterator<Item = &Slow> {
        self.recent.iter().filter(move |slow| took(slow) >= from_ns)
    }
}

/// From the device to the reader, as it is booked.
#[must_use]
pub fn took(slow: &Slow) -> u64 {
    passed(slow).last().map_or(0, |(_, end)| end - slow.moments[Point::Device as usize].min(end))
}

/// The moments of the points that can be seen, in order, none before the one before it: what is booked is as long as these are apart.
pub fn passed(slow: &Slow) -> impl Iterator<Item = (Point, u64)> {
    let seen = Point::ALL.into_iter().zip(slow.moments).filter(|(point, _)| slow.points & point.bit() != 0);
    seen.scan(0, |last, (point, moment)| {
        *last = moment.max(*last);
        Some((point, *last))
    })
}

/// Who had the CPU between two moments, and for how many nanoseconds, as far as the record reaches back; the oldest first.
pub fn occupants(slow: &Slow, from: u64, to: u64) -> impl Iterator<Item = (u64, u64)> {
    let until = |stretch: &Stretch| stretch.until.wrapping_add(slow.clock_offset);
    let pairs = slow.stretches.windows(2).rev().filter(|pair| pair[1].until != 0);
    pairs.filter_map(move |pair| {
        let begun = until(&pair[1]).max(from);
        let ended = until(&pair[0]).min(to);
        (ended > begun).then(|| (pair[0].occupant, ended - begun))
    })
}

/// What is no record of this version says nothing.
fn decode(record: &[u8]) -> Option<Slow> {
    if record.len() < size_of::<Slow>() {
        return None;
    }
    // SAFETY: long enough, and any bytes are a value: there are only integers in it.
    Some(unsafe { record.as_ptr().cast::<Slow>().read_unaligned() })
}

#[cfg(test)]
mod tests;
