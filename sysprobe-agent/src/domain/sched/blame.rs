//! The culprits of a workload's waits: the worst ones by name, and the rest as one number. The table has a
//! fixed size, however many neighbours a workload has, and no number goes backwards.

use std::collections::HashMap;

use crate::snapshot::{BlameSample, Culprit};

/// Number of culprits that are named.
const NAMED: usize = 10;
/// Number of culprits that are tracked.
const WATCHED: usize = 64;
/// When culprits are chosen, older contributions count half after this time.
const HALF_LIFE_SECONDS: f64 = 60.0;
/// A culprit must be this much worse to replace a named one, so that names do not flap.
const WORSE: f64 = 2.0;

/// One victim's culprits. A culprit that is named again restarts at zero, as a new series does.
#[derive(Clone, Debug, Default)]
pub(crate) struct Blame {
    culprits: HashMap<Culprit, Account>,
    /// Contributions of culprits while they were not named.
    other_ns: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Account {
    is_named: bool,
    /// Its contribution while it was named.
    ns: u64,
    /// The time since which `ns` is counted.
    created_ms: u64,
    recent: f64,
}

impl Blame {
    /// `created_ms` is a time before the culprit first appeared, in milliseconds since the Unix epoch.
    pub(crate) fn add(&mut self, culprit: &Culprit, ns: u64, created_ms: u64) {
        if let Some(account) = self.culprits.get_mut(culprit) {
            account.recent += ns as f64;
            if account.is_named {
                account.ns += ns;
            } else {
                self.other_ns += ns;
            }
            return;
        }
        let is_named = self.named() < NAMED;
        let account = Account { is_named, ns: if is_named { ns } else { 0 }, created_ms, recent: ns as f64 };
        if !is_named {
            self.other_ns += ns;
        }
        self.make_room();
        self.culprits.insert(culprit.clone(), account);
    }

    /// Forgets culprits that are no longer exported.
    pub(crate) fn retain(&mut self, is_known: impl Fn(&Culprit) -> bool) {
        self.culprits.retain(|culprit, _| is_known(culprit));
    }

    fn make_room(&mut self) {
        if self.culprits.len() < WATCHED {
            return;
        }
        let unnamed = self.culprits.iter().filter(|(_, account)| !account.is_named);
        let least = unnamed.min_by(|(_, one), (_, other)| one.recent.total_cmp(&other.recent));
        if let Some(least) = least.map(|(culprit, _)| culprit.clone()) {
            self.culprits.remove(&least);
        }
    }

    /// Chooses the culprits that are named from `now_ms` on.
    pub(crate) fn choose(&mut self, seconds: f64, now_ms: u64) {
        let factor = (-seconds / HALF_LIFE_SECONDS).exp2();
        for account in self.culprits.values_mut() {
            account.recent *= factor;
        }
        // Named culprits may have been forgotten.
        while self.named() < NAMED
            && let Some(worst) = self.worst_unnamed()
        {
            if let Some(account) = self.culprits.get_mut(&worst) {
                *account = Account { is_named: true, ns: 0, created_ms: now_ms, ..*account };
            }
        }
        while let Some((worst, least)) = self.overdue() {
            for (culprit, is_named) in [(worst, true), (least, false)] {
                if let Some(account) = self.culprits.get_mut(&culprit) {
                    *account = Account { is_named, ns: 0, created_ms: now_ms, ..*account };
                }
            }
        }
    }

    /// The worst unnamed and the least named culprit, if they should be swapped.
    fn overdue(&self) -> Option<(Culprit, Culprit)> {
        let worst = self.worst_unnamed()?;
        let named = self.culprits.iter().filter(|(_, account)| account.is_named);
        let (least, account) = named.min_by(|one, other| one.1.recent.total_cmp(&other.1.recent))?;
        (self.culprits[&worst].recent > account.recent * WORSE).then(|| (worst, least.clone()))
    }

    fn worst_unnamed(&self) -> Option<Culprit> {
        let unnamed = self.culprits.iter().filter(|(_, account)| !account.is_named);
        let worst = unnamed.max_by(|one, other| one.1.recent.total_cmp(&other.1.recent))?;
        Some(worst.0.clone())
    }

    fn named(&self) -> usize {
        self.culprits.values().filter(|account| account.is_named).count()
    }

    pub(crate) fn sample(&self) -> BlameSample {
        let named = self.culprits.iter().filter(|(_, account)| account.is_named);
        let mut named: Vec<_> = named.collect();
        named.sort_by_key(|(culprit, _)| *culprit);
        BlameSample {
            culprits: named.iter().map(|(culprit, account)| ((*culprit).clone(), account.ns)).collect(),
            created_ms: named.iter().map(|(_, account)| account.created_ms).collect(),
            other_ns: self.other_ns,
        }
    }
}

#[cfg(test)]
mod tests;
