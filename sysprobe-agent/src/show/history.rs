//! Which sample begins the window that ends with the newest one. Pure.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::snapshot::Snapshot;

/// A window that is moved on in smaller steps than one in so many needs no sample for each: a busy node's has megabytes.
const STEPS: u32 = 15;

/// The samples of one window, the oldest first; never empty.
#[derive(Clone, Debug)]
pub(crate) struct History {
    /// Zero for windows from one sample to the next.
    length: Duration,
    samples: VecDeque<Arc<Snapshot>>,
}

impl History {
    pub(crate) fn new(length: Option<Duration>, first: Arc<Snapshot>) -> Self {
        Self { length: length.unwrap_or_default(), samples: VecDeque::from([first]) }
    }

    pub(crate) fn newest(&self) -> &Arc<Snapshot> {
        &self.samples[self.samples.len() - 1]
    }

    /// Takes the newest sample in, and gives that with which its window begins: the one whose age is closest to the length, of those that
    /// the same agent counted.
    pub(crate) fn add(&mut self, newest: &Arc<Snapshot>) -> Arc<Snapshot> {
        let off = |sample: &Snapshot| newest.window_since(sample).abs_diff(self.length);
        let is_older = |sample: &Snapshot| sample.agent.started_ns != newest.agent.started_ns;
        let none = self.length.is_zero();
        while self.samples.len() > 1
            && (none || is_older(&self.samples[0]) || off(&self.samples[1]) <= off(&self.samples[0]))
        {
            self.samples.pop_front();
        }
        let earlier = Arc::clone(&self.samples[0]);
        let last = self.samples.len() - 1;
        if last > 0 && self.samples[last].window_since(&self.samples[last - 1]) < self.length / STEPS {
            self.samples.pop_back();
        }
        self.samples.push_back(Arc::clone(newest));
        earlier
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::fixture::snapshot;

    /// The lengths of the windows that end with samples at these times.
    fn lengths(window: Option<u64>, times_ms: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let at = |ms: u64| Arc::new(Snapshot { monotonic_ns: ms * 1_000_000, ..snapshot(0, Vec::new()) });
        let mut history = History::new(window.map(Duration::from_millis), at(0));
        let mut lengths = Vec::new();
        for ms in times_ms {
            let (earlier, newest) = (history.add(&at(ms)), at(ms));
            lengths.push(u64::try_from(newest.window_since(&earlier).as_millis()).expect("small"));
            assert!(history.samples.len() <= STEPS as usize + 2, "{}", history.samples.len());
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
