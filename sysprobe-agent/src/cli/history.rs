//! Chooses the sample that begins the window up to the newest one. Pure.
//!
//! A busy node's sample takes tens of megabytes, and a command may run within the agent's memory limit. Whole
//! samples are therefore kept only at the ends of the window; those in between, which may begin a later
//! window, are compressed.

use std::collections::VecDeque;
use std::io::{BufReader, BufWriter};
use std::sync::Arc;
use std::time::Duration;

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;

use crate::snapshot::Snapshot;

/// Samples that are closer together than the window divided by this are not kept.
const STEPS: u32 = 15;
/// The limit of all compressed samples together. Samples of a thousand workloads that are active in all
/// domains take about half of it. At the limit, fewer samples are kept and the window advances in larger
/// steps.
const PACKED_BYTES: usize = 16 << 20;

/// The samples of one window.
#[derive(Clone, Debug)]
pub(crate) struct History {
    /// Zero for windows from one sample to the next.
    length: Duration,
    /// The samples before the newest, the oldest first.
    packed: VecDeque<Packed>,
    /// The first of them, unpacked, once it has been used.
    first: Option<Arc<Snapshot>>,
    newest: Arc<Snapshot>,
    packed_bytes: usize,
}

/// A sample that may begin a window.
#[derive(Clone, Debug)]
struct Packed {
    time: Time,
    bytes: Arc<[u8]>,
}

/// When a sample was taken, and which agent counted it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Time {
    monotonic_ns: u64,
    agent_ns: u64,
}

impl History {
    pub(crate) fn new(length: Option<Duration>, first: Arc<Snapshot>) -> Self {
        Self::bounded(length.unwrap_or_default(), first, PACKED_BYTES)
    }

    const fn bounded(length: Duration, newest: Arc<Snapshot>, packed_bytes: usize) -> Self {
        Self { length, packed: VecDeque::new(), first: None, newest, packed_bytes }
    }

    pub(crate) const fn newest(&self) -> &Arc<Snapshot> {
        &self.newest
    }

    /// Adds the newest sample, and returns the one that begins its window: of the samples of the same agent,
    /// the one whose age is closest to the window's length.
    pub(crate) fn add(&mut self, newest: &Arc<Snapshot>) -> Arc<Snapshot> {
        let now = Time::of(newest);
        self.leave_behind(now);
        let earlier = self.begin();
        let last = Time::of(&self.newest);
        let is_apart = self.packed.back().is_none_or(|before| last.since(before.time) >= self.length / STEPS);
        if is_apart && !self.length.is_zero() {
            self.keep();
        }
        self.newest = Arc::clone(newest);
        earlier
    }

    /// Drops samples that cannot begin a window ending now or later.
    fn leave_behind(&mut self, now: Time) {
        let off = |time: Time| now.since(time).abs_diff(self.length);
        while let Some(first) = self.packed.front().map(|first| first.time) {
            let next = self.packed.get(1).map_or(Time::of(&self.newest), |next| next.time);
            if first.agent_ns == now.agent_ns && off(next) > off(first) {
                return;
            }
            self.packed.pop_front();
            self.first = None;
        }
    }

    /// The oldest sample that is kept.
    fn begin(&mut self) -> Arc<Snapshot> {
        while let Some(packed) = self.packed.front() {
            if self.first.is_none() {
                self.first = packed.unpack().map(Arc::new);
            }
            if let Some(first) = &self.first {
                return Arc::clone(first);
            }
            // It cannot be unpacked: the next one makes a shorter window.
            self.packed.pop_front();
        }
        Arc::clone(&self.newest)
    }

    /// Packs the newest sample, for later windows.
    fn keep(&mut self) {
        let Some(packed) = Packed::new(&self.newest) else { return };
        if self.packed.is_empty() {
            self.first = Some(Arc::clone(&self.newest));
        }
        self.packed.push_back(packed);
        while self.packed.len() > 2 && self.bytes() > self.packed_bytes {
            self.thin_out();
        }
    }

    fn bytes(&self) -> usize {
        self.packed.iter().map(|packed| packed.bytes.len()).sum()
    }

    /// Drops the sample that leaves the smallest gap, but neither the first nor the last.
    fn thin_out(&mut self) {
        let gap = |at: &usize| self.packed[at + 1].time.since(self.packed[at - 1].time);
        if let Some(least) = (1..self.packed.len() - 1).min_by_key(gap) {
            self.packed.remove(least);
        }
    }
}

impl Packed {
    /// Compresses the sample's JSON form, to a twentieth of the sample's memory.
    fn new(sample: &Snapshot) -> Option<Self> {
        let encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
        let mut writer = BufWriter::new(encoder);
        serde_json::to_writer(&mut writer, sample).ok()?;
        let bytes = writer.into_inner().ok()?.finish().ok()?;
        Some(Self { time: Time::of(sample), bytes: bytes.into() })
    }

    fn unpack(&self) -> Option<Snapshot> {
        serde_json::from_reader(BufReader::new(DeflateDecoder::new(&*self.bytes))).ok()
    }
}

impl Time {
    const fn of(sample: &Snapshot) -> Self {
        Self { monotonic_ns: sample.monotonic_ns, agent_ns: sample.agent.started_ns }
    }

    const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.monotonic_ns.saturating_sub(earlier.monotonic_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::fixture::{self, snapshot};

    /// The lengths of the windows that end with samples at these times.
    fn lengths(window: Option<u64>, times_ms: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let at = |ms: u64| Arc::new(Snapshot { monotonic_ns: ms * 1_000_000, ..snapshot(0, Vec::new()) });
        let mut history = History::new(window.map(Duration::from_millis), at(0));
        let mut lengths = Vec::new();
        for ms in times_ms {
            let (earlier, newest) = (history.add(&at(ms)), at(ms));
            lengths.push(u64::try_from(newest.window_since(&earlier).as_millis()).expect("small"));
            assert!(history.packed.len() <= STEPS as usize + 1, "{}", history.packed.len());
            assert!(window.is_some() || history.packed.is_empty(), "a window that moves on needs none");
        }
        lengths
    }

    #[test]
    fn without_a_length_a_window_is_from_one_sample_to_the_next() {
        assert_eq!(lengths(None, [2_000, 4_001, 9_000]), [2_000, 2_001, 4_999]);
    }

    #[test]
    fn a_window_grows_to_its_length_and_then_moves() {
        let times = [300, 2_001, 3_999, 6_002, 8_000, 10_001, 12_000];
        assert_eq!(lengths(Some(6_000), times), [300, 2_001, 3_999, 6_002, 5_999, 6_002, 5_998]);
    }

    #[test]
    fn many_samples_are_not_all_kept() {
        let last = lengths(Some(60_000), (1..=2_000).map(|step| step * 100)).pop();
        assert!(last.is_some_and(|length| (58_000..=62_000).contains(&length)), "{last:?}");
    }

    #[test]
    fn a_sample_that_was_packed_is_the_same() {
        let (earlier, later) = fixture::node();
        let mut history = History::new(Some(Duration::from_secs(600)), Arc::new(earlier.clone()));
        history.add(&Arc::new(later));
        history.first = None;
        assert_eq!(*history.begin(), earlier);
    }

    #[test]
    fn fewer_samples_are_kept_where_they_are_large() {
        let first = Arc::new(fixture::node().1);
        let size = Packed::new(&first).expect("packed").bytes.len();
        let at =
            |seconds: u64| Arc::new(Snapshot { monotonic_ns: seconds * 1_000_000_000, ..(*first).clone() });
        let mut history = History::bounded(Duration::from_secs(60), at(0), 5 * size);
        for seconds in 1..200 {
            let (earlier, newest) = (history.add(&at(seconds)), at(seconds));
            assert!(history.bytes() <= 5 * size + 100, "{} bytes of {size} each", history.bytes());
            let length = newest.window_since(&earlier).as_secs();
            assert!(seconds < 60 || (45..=75).contains(&length), "{length} s after {seconds}");
        }
    }

    #[test]
    fn what_an_agent_counted_before_it_was_restarted_is_left_behind() {
        let at = |seconds, started_ns| {
            let mut sample = snapshot(seconds, Vec::new());
            sample.agent.started_ns = started_ns;
            Arc::new(sample)
        };
        let mut history = History::new(Some(Duration::from_secs(60)), at(0, 1));
        for seconds in [2, 4] {
            history.add(&at(seconds, 1));
        }
        let begins = [6, 8, 10].map(|seconds| history.add(&at(seconds, 5)).monotonic_ns / 1_000_000_000);
        assert_eq!(begins, [4, 6, 6]);
    }

    #[test]
    fn samples_that_are_further_apart_than_the_length_are_windows_of_their_own() {
        assert_eq!(lengths(Some(1_000), [5_000, 10_000]), [5_000, 5_000]);
    }
}
