//! Whether the source of pod names can only recover by a restart of the agent.
//!
//! A container runtime recreates its socket when it is restarted. In a container the old one stays mounted
//! and refuses connections for ever; only a new container gets the new one. The liveness probe reads this
//! state, so reading it does not block.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::source::SourceKind;

/// A runtime is restarted in seconds, and its package upgraded in a minute.
const DEAD_AFTER: Duration = Duration::from_secs(180);

/// Shared by the source and by callers.
#[derive(Clone, Debug, Default)]
pub struct Vitality(Arc<Mutex<State>>);

#[derive(Debug, Default)]
enum State {
    /// It never answered, so a restart would change nothing.
    #[default]
    Unheard,
    Heard,
    Refused {
        source: SourceKind,
        since: Instant,
        reason: String,
    },
}

/// A source that has answered and has refused all connections since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dead {
    pub source: SourceKind,
    pub since: Instant,
    pub reason: String,
}

impl Vitality {
    /// That of a source that answered before, and has refused connections since.
    #[cfg(test)]
    pub(crate) fn of_refused(source: SourceKind, since: Instant) -> Self {
        let vitality = Self::default();
        vitality.has_answered();
        vitality.was_refused(source, "refused", since);
        vitality
    }

    pub(super) fn has_answered(&self) {
        self.set(|_| Some(State::Heard));
    }

    /// A connection was refused: no process listens at the socket.
    pub(super) fn was_refused(&self, source: SourceKind, reason: &str, now: Instant) {
        self.set(|state| {
            matches!(state, State::Heard).then(|| State::Refused {
                source,
                since: now,
                reason: reason.to_owned(),
            })
        });
    }

    /// It failed in another way: a process listens there, and a restart would not help.
    pub(super) fn has_failed(&self) {
        self.set(|state| matches!(state, State::Refused { .. }).then_some(State::Heard));
    }

    fn set(&self, next: impl FnOnce(&State) -> Option<State>) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(next) = next(&state) {
            *state = next;
        }
    }

    /// The source that only a restart can bring back, if there is one.
    #[must_use]
    pub fn dead(&self, now: Instant) -> Option<Dead> {
        match &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            State::Refused { source, since, reason } if now.duration_since(*since) >= DEAD_AFTER => {
                Some(Dead { source: *source, since: *since, reason: reason.clone() })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_source_that_answered_and_was_refused_for_minutes_is_dead() {
        let start = Instant::now();
        let later = |seconds| start + Duration::from_secs(seconds);
        let vitality = Vitality::default();
        let refused = |at| vitality.was_refused(SourceKind::Cri, "refused", later(at));
        refused(0);
        assert_eq!(vitality.dead(later(10_000)), None, "it never answered");
        vitality.has_answered();
        refused(10_000);
        refused(10_100);
        assert_eq!(vitality.dead(later(10_179)), None);
        let dead = vitality.dead(later(10_180)).expect("dead");
        assert_eq!(
            (dead.source, dead.since, dead.reason.as_str()),
            (SourceKind::Cri, later(10_000), "refused")
        );
        vitality.has_failed();
        refused(10_200);
        assert_eq!(vitality.dead(later(10_300)), None, "a process listened");
        vitality.has_answered();
        assert_eq!(vitality.dead(later(20_000)), None);
    }
}
