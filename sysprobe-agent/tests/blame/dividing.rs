//! The watchers that attribute waits to causes, and the lock that decides which tests may run loads.

use std::ops::Deref;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use sysprobe_agent::probe::AttachMode;

use super::support::attach_modes::{self, Watcher};

/// Tests whose loads may run at the same time take a read lock, others a write lock.
static CPUS: RwLock<()> = RwLock::new(());

/// The watchers that see each switch. The function-based attach modes run before the switch and cannot tell
/// what occupied a CPU.
pub(crate) struct Dividing<Turn> {
    watchers: Vec<Watcher>,
    _turn: Turn,
}

impl<Turn> Dividing<Turn> {
    fn start(turn: Turn) -> Self {
        let mut watchers = attach_modes::watchers("sched");
        watchers.retain(|watcher| matches!(watcher.mode, AttachMode::TpBtf | AttachMode::RawTp));
        assert!(!watchers.is_empty(), "no attach mode divides");
        Self { watchers, _turn: turn }
    }
}

impl<Turn> Deref for Dividing<Turn> {
    type Target = [Watcher];

    fn deref(&self) -> &[Watcher] {
        &self.watchers
    }
}

/// Watchers for a test that may run beside other loads.
pub(crate) fn watchers() -> Dividing<RwLockReadGuard<'static, ()>> {
    Dividing::start(CPUS.read().unwrap_or_else(PoisonError::into_inner))
}

/// Watchers for a test that needs to be the only load here.
pub(crate) fn alone() -> Dividing<RwLockWriteGuard<'static, ()>> {
    Dividing::start(turn())
}

/// The lock of [`alone`] for a test with its own agent.
pub(crate) fn turn() -> RwLockWriteGuard<'static, ()> {
    CPUS.write().unwrap_or_else(PoisonError::into_inner)
}
