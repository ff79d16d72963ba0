//! Containers that no source knows, and when to ask for each again: at once, after a second, after two, after
//! four... A container that never becomes known costs next to nothing.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::id::ContainerId;

const LONGEST: Duration = Duration::from_secs(60);
/// A container that was not asked for in this time is forgotten, because it has gone.
const FORGOTTEN: Duration = Duration::from_secs(120);
/// Enough for a minute on a node where a hundred containers start each second.
const ENTRIES_MAX: usize = 8192;

#[derive(Debug, Default)]
pub(super) struct Misses {
    entries: HashMap<ContainerId, Miss>,
    swept: Option<Instant>,
}

#[derive(Debug)]
struct Miss {
    tries: u32,
    next: Instant,
    asked: Instant,
}

impl Misses {
    /// Whether to ask the sources for it now: at most once a second for one id.
    pub(super) fn is_due(&mut self, id: ContainerId, now: Instant) -> bool {
        if self.entries.len() >= ENTRIES_MAX && !self.entries.contains_key(&id) {
            return false;
        }
        let miss = self.entries.entry(id).or_insert(Miss { tries: 0, next: now, asked: now });
        miss.asked = now;
        if now < miss.next {
            return false;
        }
        miss.next = now + Duration::from_secs(1 << miss.tries.min(6)).min(LONGEST);
        miss.tries += 1;
        true
    }

    /// Removes a container that is known now.
    pub(super) fn clear(&mut self, id: &ContainerId) {
        self.entries.remove(id);
    }

    /// How many containers were asked for lately and are unknown.
    pub(super) fn count(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn sweep(&mut self, now: Instant) {
        if self.swept.is_some_and(|swept| now.duration_since(swept) < Duration::from_secs(1)) {
            return;
        }
        self.swept = Some(now);
        self.entries.retain(|_, miss| now.duration_since(miss.asked) < FORGOTTEN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: usize) -> ContainerId {
        ContainerId::parse(&format!("{number:064x}")).expect("an id")
    }

    #[test]
    fn asking_gets_rarer_and_starts_anew_once_it_was_known() {
        let start = Instant::now();
        let mut misses = Misses::default();
        let due: Vec<u64> =
            (0..200).filter(|s| misses.is_due(id(1), start + Duration::from_secs(*s))).collect();
        assert_eq!(due, [0, 1, 3, 7, 15, 31, 63, 123, 183]);
        misses.clear(&id(1));
        assert_eq!(misses.count(), 0);
        assert!(misses.is_due(id(1), start));
        assert!(!misses.is_due(id(1), start + Duration::from_millis(999)));
    }

    #[test]
    fn what_nobody_asks_for_is_forgotten_and_there_are_never_too_many() {
        let start = Instant::now();
        let mut misses = Misses::default();
        assert_eq!(
            (0..ENTRIES_MAX + 5).filter(|number| misses.is_due(id(*number), start)).count(),
            ENTRIES_MAX
        );
        misses.sweep(start + FORGOTTEN);
        assert_eq!(misses.count(), 0);
        assert!(misses.is_due(id(ENTRIES_MAX), start + FORGOTTEN));
    }
}
