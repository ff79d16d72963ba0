//! The watchers that divide waits, and whose turn it is to have loads.

use std::ops::Deref;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use sysprobe_agent::probe::Tier;

use super::support::tiers::{self, Watcher};

/// Tests whose loads may run beside each other read, others write.
static CPUS: RwLock<()> = RwLock::new(());

/// Those that look at each switch; the tiers by function come before it and cannot tell what a CPU was
/// occupied with.
pub(crate) struct Dividing<Turn> {
    watchers: Vec<Watcher>,
    _turn: Turn,
}

impl<Turn> Dividing<Turn> {
    fn start(turn: Turn) -> Self {
        let mut watchers = tiers::watchers("sched");
        watchers.retain(|watcher| matches!(watcher.tier, Tier::TpBtf | Tier::RawTp));
        assert!(!watchers.is_empty(), "no tier divides");
        Self { watchers, _turn: turn }
    }
}

impl<Turn> Deref for Dividing<Turn> {
    type Target = [Watcher];

    fn deref(&self) -> &[Watcher] {
        &self.watchers
    }
}

/// While other tests have loads, too.
pub(crate) fn watchers() -> Dividing<RwLockReadGuard<'static, ()>> {
    Dividing::start(CPUS.read().unwrap_or_else(PoisonError::into_inner))
}

/// While no other test here has a load.
pub(crate) fn alone() -> Dividing<RwLockWriteGuard<'static, ()>> {
    Dividing::start(turn())
}

/// The same for a test that has an agent of its own.
pub(crate) fn turn() -> RwLockWriteGuard<'static, ()> {
    CPUS.write().unwrap_or_else(PoisonError::into_inner)
}
