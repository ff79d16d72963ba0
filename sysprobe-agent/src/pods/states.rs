//! The state of each source, for the agent's own metrics and to explain why a name is missing.

use std::time::{Duration, Instant};

use super::source::{Change, SourceKind, Update};

/// The current state of one source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceState {
    pub source: SourceKind,
    pub up: bool,
    /// Why it is not up.
    pub reason: String,
    /// How long ago it last reported. A source that is only asked when needed may be silent and healthy.
    pub age: Option<Duration>,
}

#[derive(Debug)]
pub(super) struct States {
    sources: Vec<Contact>,
}

#[derive(Debug)]
struct Contact {
    source: SourceKind,
    heard: Option<Instant>,
    /// Why it cannot report now.
    reason: Option<String>,
}

impl States {
    pub(super) fn new(sources: Vec<SourceKind>) -> Self {
        let contact = |source| {
            let first = match source {
                SourceKind::Kubernetes | SourceKind::Cri => Some("no answer yet".to_owned()),
                // The other two are asked when something is unknown, and at first nothing is.
                SourceKind::Kubelet | SourceKind::Runtime => None,
            };
            Contact { source, heard: None, reason: first }
        };
        Self { sources: sources.into_iter().map(contact).collect() }
    }

    pub(super) fn note(&mut self, update: &Update) {
        let Some(contact) = self.sources.iter_mut().find(|contact| contact.source == update.source) else {
            return;
        };
        match &update.change {
            Change::Failed(reason) => contact.reason = Some(reason.clone()),
            // A stream of only these would not be a working watch.
            Change::Unread(_) => {}
            _ => (contact.heard, contact.reason) = (Some(update.at), None),
        }
    }

    pub(super) fn all(&self, now: Instant) -> Vec<SourceState> {
        let state = |contact: &Contact| SourceState {
            source: contact.source,
            up: contact.reason.is_none(),
            reason: contact.reason.clone().unwrap_or_default(),
            age: contact.heard.map(|heard| now.saturating_duration_since(heard)),
        };
        self.sources.iter().map(state).collect()
    }

    /// Time since the last report of the source that watches the pods. Without one, nothing can be stale.
    pub(super) fn watch_age(&self, now: Instant) -> Option<Duration> {
        let watches = |contact: &&Contact| matches!(contact.source, SourceKind::Kubernetes | SourceKind::Cri);
        let heard = self.sources.iter().find(watches)?.heard?;
        Some(now.saturating_duration_since(heard))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(states: &mut States, source: SourceKind, at: Instant, change: Change) {
        states.note(&Update { source, at, change });
    }

    #[test]
    fn a_source_is_down_from_its_failure_to_its_next_word() {
        let start = Instant::now();
        let later = start + Duration::from_secs(5);
        let mut states = States::new(vec![SourceKind::Kubernetes, SourceKind::Kubelet]);
        assert_eq!(states.watch_age(later), None);
        let up = |states: &States| states.all(later).iter().map(|state| state.up).collect::<Vec<_>>();
        assert_eq!(up(&states), [false, true]);
        note(&mut states, SourceKind::Kubernetes, start, Change::Synced(vec![]));
        assert_eq!(up(&states), [true, true]);
        note(&mut states, SourceKind::Kubernetes, later, Change::Failed("refused".into()));
        let state = states.all(later).remove(0);
        assert_eq!((state.up, state.reason.as_str(), state.age), (false, "refused", Some(later - start)));
        assert_eq!(states.watch_age(later), Some(later - start));
        note(&mut states, SourceKind::Kubernetes, later, Change::Alive);
        assert_eq!(up(&states), [true, true]);
        assert_eq!(states.watch_age(later), Some(Duration::ZERO));
    }
}
