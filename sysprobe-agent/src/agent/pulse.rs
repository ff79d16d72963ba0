//! Detects that the engine's thread hangs, from the acts that are sent to it and those that it finishes.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// An act that takes longer counts as hanging. The longest one is a walk over ten thousand cgroups: about a
/// second, and ten times as long if a quota leaves the agent a tenth of a CPU. This is three times that, and
/// the kubelet probes several times before it ends the pod.
const HANGS_AFTER: Duration = Duration::from_secs(30);

#[derive(Debug, Default)]
pub(super) struct Pulse(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Acts that were sent and are not finished.
    waiting: usize,
    /// When the last act finished, or the first of those that wait was sent.
    since: Option<Instant>,
}

impl Pulse {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that an act is sent to the thread.
    pub(super) fn sent(&self) {
        let mut state = self.state();
        if state.waiting == 0 {
            state.since = Some(Instant::now());
        }
        state.waiting += 1;
    }

    /// Notes that the act could not be sent.
    pub(super) fn withdrawn(&self) {
        self.state().waiting -= 1;
    }

    /// Notes that the thread has finished an act.
    pub(super) fn done(&self) {
        let mut state = self.state();
        state.waiting -= 1;
        state.since = Some(Instant::now());
    }

    /// How long acts have been waiting without any finishing, if that is too long.
    pub(super) fn hangs_for(&self, now: Instant) -> Option<Duration> {
        let state = self.state();
        let since = state.since.filter(|_| state.waiting > 0)?;
        Some(now.saturating_duration_since(since)).filter(|time| *time >= HANGS_AFTER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_act_hangs_and_a_long_rest_does_not() {
        let pulse = Pulse::default();
        let later = |times: u32| Instant::now() + HANGS_AFTER * times;
        assert_eq!(pulse.hangs_for(later(10)), None, "nothing waits for it");
        pulse.sent();
        assert_eq!(pulse.hangs_for(Instant::now() + HANGS_AFTER / 2), None, "a long scan");
        assert!(pulse.hangs_for(later(1)).is_some(), "the thread may not even have begun");
        pulse.done();
        assert_eq!(pulse.hangs_for(later(10)), None, "it came to its end");
    }

    #[tokio::test(start_paused = true)]
    async fn a_thread_that_gets_on_does_not_hang_however_much_waits() {
        let pulse = Pulse::default();
        pulse.sent();
        for _ in 0..10 {
            pulse.sent();
            tokio::time::advance(HANGS_AFTER / 2).await;
            pulse.done();
            assert_eq!(pulse.hangs_for(Instant::now() + HANGS_AFTER / 2), None);
        }
        pulse.sent();
        pulse.withdrawn();
        pulse.done();
        assert_eq!(pulse.hangs_for(Instant::now() + HANGS_AFTER * 10), None, "nothing waits");
    }
}
