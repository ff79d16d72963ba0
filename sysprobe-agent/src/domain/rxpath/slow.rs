//! Individual slow requests. Passes the lowest threshold of all readers to the kernel side, as long as there
//! are readers, and keeps the latest requests.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use aya::maps::{MapData, RingBuf};
use sysprobe_common::rxpath::Point;
use sysprobe_common::rxpath::slow::Slow;
use sysprobe_common::sched::RunInterval;
use sysprobe_common::sched::timeline::{SOFTIRQS, WHOLE_SHARE};

use crate::bpf::{LoadError, Loaded, MappedArray};

/// More requests than a reader looks at.
const KEPT: usize = 1024;

pub struct SlowRequests {
    ring: RingBuf<MapData>,
    from: MappedArray<u64>,
    leases: Leases,
    recent: VecDeque<Slow>,
    /// Number of requests that were dropped to make room.
    superfluous: u64,
}

/// Each reader's threshold in nanoseconds, and the end of its lease.
#[derive(Debug, Default)]
struct Leases(Vec<(u64, Instant)>);

impl Leases {
    /// More different thresholds at a time are a mistake: the lease that ends first is dropped.
    const MOST: usize = 16;

    fn extend(&mut self, from_ns: u64, until: Instant) {
        let Self(leases) = self;
        if let Some((_, end)) = leases.iter_mut().find(|(from, _)| *from == from_ns) {
            *end = until.max(*end);
            return;
        }
        if leases.len() == Self::MOST
            && let Some(first) = (0..leases.len()).min_by_key(|at| leases[*at].1)
        {
            leases.swap_remove(first);
        }
        leases.push((from_ns, until));
    }

    /// The lowest threshold whose lease has not ended.
    fn lowest(&mut self, now: Instant) -> Option<u64> {
        self.0.retain(|(_, until)| *until > now);
        self.0.iter().map(|(from, _)| *from).min()
    }
}

impl SlowRequests {
    /// Takes the maps before any program runs.
    pub(super) fn new(loaded: &mut Loaded) -> Result<Self, LoadError> {
        let ring = loaded.take_map("RXPATH_SLOW")?;
        let from = loaded.map_array("RXPATH_SLOW_FROM")?;
        Ok(Self { ring, from, leases: Leases::default(), recent: VecDeque::new(), superfluous: 0 })
    }

    /// Reports each request that takes `from_ns` or longer, for a while.
    pub fn ask(&mut self, from_ns: u64, lease: Duration, now: Instant) {
        self.leases.extend(from_ns, now + lease);
        self.update(now);
    }

    /// Reads new records, and ends expired leases.
    pub fn update(&mut self, now: Instant) {
        let from = self.leases.lowest(now);
        // 0 would disable it.
        self.from.write(0, from.map_or(0, |from| from.max(1)));
        while let Some(record) = self.ring.next() {
            self.recent.extend(decode(&record));
        }
        if from.is_none() {
            self.recent.clear();
        }
        let superfluous = self.recent.len().saturating_sub(KEPT);
        self.recent.drain(..superfluous);
        self.superfluous += superfluous as u64;
    }

    /// Number of requests that were dropped to make room.
    #[must_use]
    pub const fn superfluous(&self) -> u64 {
        self.superfluous
    }

    /// The kept requests that took `from_ns` or longer, the oldest first.
    pub fn recent(&self, from_ns: u64) -> impl Iterator<Item = &Slow> {
        self.recent.iter().filter(move |slow| took(slow) >= from_ns)
    }
}

/// The time from the device to the reader, as the histograms have it.
#[must_use]
pub fn took(slow: &Slow) -> u64 {
    passed(slow).last().map_or(0, |(_, end)| end - slow.timestamps[Point::Device as usize].min(end))
}

/// The timestamps of the observed points, made monotonic: the histograms hold their differences.
pub fn passed(slow: &Slow) -> impl Iterator<Item = (Point, u64)> {
    let seen =
        Point::ALL.into_iter().zip(slow.timestamps).filter(|(point, _)| slow.points & point.bit() != 0);
    seen.scan(0, |last, (point, timestamp)| {
        *last = timestamp.max(*last);
        Some((point, *last))
    })
}

/// The occupants of the CPU during the reader's last wait for it and their time in nanoseconds, the oldest
/// first, as far as the record reaches back. Time in interrupts is listed separately.
pub fn occupants(slow: &Slow) -> impl Iterator<Item = (u64, u64)> {
    // The reader may have waited for something else before this data was ready.
    let (from, to) = (slow.waited_from.max(slow.timestamps[Point::Ready as usize]), slow.waited_to);
    let until = |interval: &RunInterval| interval.until.wrapping_add(slow.clock_offset);
    let pairs = slow.run_intervals.windows(2).rev().filter(|pair| pair[1].until != 0);
    let parts = pairs.filter_map(move |pair| {
        let begun = until(&pair[1]).max(from);
        let ended = until(&pair[0]).min(to);
        let length = ended.checked_sub(begun).filter(|length| *length > 0)?;
        let interrupted =
            length.saturating_mul(u64::from(pair[0].interrupted_share)) / u64::from(WHOLE_SHARE);
        let interrupted = interrupted.min(length);
        Some([(pair[0].occupant, length - interrupted), (SOFTIRQS, interrupted)])
    });
    parts.flatten().filter(|(_, length)| *length > 0)
}

/// `None` if the record is too short for this version.
fn decode(record: &[u8]) -> Option<Slow> {
    if record.len() < size_of::<Slow>() {
        return None;
    }
    // SAFETY: long enough, and any bytes are a value: there are only integers in it.
    Some(unsafe { record.as_ptr().cast::<Slow>().read_unaligned() })
}

#[cfg(test)]
mod tests;
