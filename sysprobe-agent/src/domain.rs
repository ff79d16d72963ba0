//! What domains with BPF programs have in common: how one is started, and what is asked of it while it runs.

use std::time::Instant;

use crate::bpf::{LoadError, Loader, Running};
use crate::plan::{Candidate, Plan};
use crate::probe::ProgramSet;
use crate::snapshot::LostUpdates;
use crate::storage::Store;

/// A domain that has been started.
pub trait Domain: Running {
    /// The updates that it lost since it was started, by reason.
    fn losses(&self) -> Vec<LostUpdates>;

    /// Its maps that are listed from time to time, and how many entries each had the last time.
    fn in_use(&self) -> Vec<(&'static str, u64)>;

    /// Its task or socket storage, if this attach mode has any.
    fn store(&mut self) -> Option<&mut Store> {
        None
    }

    /// Removes operations in progress whose end was missed, if it is time to look for them.
    fn remove_stale(&mut self, _now: Instant, _now_ns: u64) {}
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
