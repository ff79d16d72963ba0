//! What domains with BPF programs have in common: how one is started, and what is asked of it while it runs.

use std::any::Any;
use std::time::Instant;

use crate::bpf::{LoadError, Loader, Running};
use crate::domain::slots::SlotTable;
use crate::plan::{Candidate, Plan};
use crate::probe::ProgramSet;
use crate::snapshot::LostUpdates;
use crate::storage::Store;

/// A domain that has been started.
pub trait Domain: Any + Running + Send {
    /// Its slots, to be charged.
    fn slot_tables(&mut self) -> Vec<&mut dyn SlotTable>;

    /// The updates that it lost since it was started, by reason.
    fn losses(&self) -> Vec<LostUpdates>;

    /// Its maps that are listed from time to time, and how many entries each had the last time.
    fn in_use(&self) -> Vec<(&'static str, u64)>;

    /// Its task or socket storage, if this attach mode has any.
    fn store(&mut self) -> Option<&mut Store> {
        None
    }

    /// Accounts for what is in progress, so that a reader sees it.
    fn flush(&mut self) -> Result<(), LoadError> {
        Ok(())
    }

    /// Removes operations in progress whose end was missed, if it is time to look for them.
    fn remove_stale(&mut self, _now: Instant, _now_ns: u64) {}
}

impl dyn Domain {
    /// The domain by its own type, if it is of this type.
    #[must_use]
    pub fn downcast_ref<D: Domain>(&self) -> Option<&D> {
        let domain: &dyn Any = self;
        domain.downcast_ref()
    }

    /// As [`downcast_ref`](Self::downcast_ref), to change it.
    pub fn downcast_mut<D: Domain>(&mut self) -> Option<&mut D> {
        let domain: &mut dyn Any = self;
        domain.downcast_mut()
    }
}

/// How a domain is started.
pub trait Start: Domain + Sized {
    /// As in the table of probes.
    const NAME: &'static str;

    /// Loads and attaches the programs of one attach mode. Whatever happens from here on is counted.
    fn start(
        loader: &Loader,
        set: &'static ProgramSet,
        candidate: &Candidate,
        plan: &Plan,
    ) -> Result<Self, LoadError>;
}
