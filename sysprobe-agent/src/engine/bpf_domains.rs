//! The domains whose BPF programs keep counters per cgroup, as far as they could be started.

use std::collections::HashMap;
use std::io;
use std::time::Instant;

use sysprobe_common::sched::threads::Threads;
use tracing::warn;

use super::start::start_domain;
use crate::bpf::{Loaded, Loader, Running, Scan};
use crate::domain::rxpath::Rxpath;
use crate::domain::sched::Sched;
use crate::domain::sched::interference::Interference;
use crate::domain::slots::{SlotOwner, SlotTable};
use crate::domain::tcp::Tcp;
use crate::domain::traits::Domain;
use crate::domain::vfs::Vfs;
use crate::domain::{DOMAINS, Row};
use crate::host::Population;
use crate::plan::{Candidate, Plan};
use crate::snapshot::{DomainState, LostUpdates, SocketsSample};
use crate::storage::{self, Store};

pub(super) struct BpfDomains(Vec<Box<dyn Domain>>);

impl BpfDomains {
    /// Starts what the plan enables; a domain that the kernel rejects is off with its reason.
    pub(super) fn start(loader: &Loader, plan: &Plan, domains: &mut Vec<DomainState>) -> Self {
        let mut started = Self(Vec::new());
        for Row { name, start } in DOMAINS {
            let start = |set, candidate: &Candidate| start(loader, set, candidate, plan);
            started.0.extend(start_domain(name, plan, domains, start));
            // Otherwise what all these domains were granted and have not used would add up.
            storage::renew(&mut started.stores(), &plan.storage, &Population::read());
        }
        started
    }

    /// A domain, if it was started.
    fn get<D: Domain>(&self) -> Option<&D> {
        self.0.iter().find_map(|domain| domain.downcast_ref())
    }

    fn get_mut<D: Domain>(&mut self) -> Option<&mut D> {
        self.0.iter_mut().find_map(|domain| domain.downcast_mut())
    }

    /// See [`Domain::flush`].
    pub(super) fn flush(&mut self) {
        for domain in &mut self.0 {
            if let Err(error) = domain.flush() {
                let domain = domain.loaded().domain();
                warn!(domain, %error, "Operations in progress could not be added to the totals.");
            }
        }
    }

    /// See [`Domain::remove_stale`].
    pub(super) fn remove_stale(&mut self, now: Instant, now_ns: u64) {
        self.0.iter_mut().for_each(|domain| domain.remove_stale(now, now_ns));
    }

    /// The slots of every domain, to be charged.
    pub(super) fn slot_tables(&mut self) -> impl Iterator<Item = &mut dyn SlotTable> {
        self.0.iter_mut().flat_map(|domain| domain.slot_tables())
    }

    /// The sockets as of the last scan.
    pub(super) fn sockets(&self) -> &[(SlotOwner, SocketsSample)] {
        self.get().map_or(&[], Tcp::sockets)
    }

    /// See [`Tcp::begin_scan`].
    pub(super) fn begin_socket_scan(&mut self) -> Option<Scan> {
        self.get_mut().and_then(Tcp::begin_scan)
    }

    /// See [`Tcp::end_scan`].
    pub(super) fn end_socket_scan(&mut self) -> io::Result<()> {
        self.get_mut().map_or(Ok(()), Tcp::end_scan)
    }

    /// See [`Sched::begin_task_scan`].
    pub(super) fn begin_task_scan(&mut self) -> Option<Scan> {
        self.get_mut().and_then(Sched::begin_task_scan)
    }

    /// The threads as of the last scan.
    pub(super) fn threads(&mut self) -> io::Result<Vec<(SlotOwner, Threads)>> {
        self.get_mut().map_or_else(|| Ok(Vec::new()), Sched::threads)
    }

    pub(super) fn vfs(&mut self) -> Option<&mut Vfs> {
        self.get_mut()
    }

    pub(super) fn rxpath(&mut self) -> Option<&mut Rxpath> {
        self.get_mut()
    }

    /// Interference: which owner waited while which other ran.
    pub(super) fn interference(&mut self) -> Option<&mut Interference> {
        self.get_mut().map(Sched::interference)
    }

    /// Time that tasks waited for cgroups whose interference record found no room, in nanoseconds.
    pub(super) fn unplaced_ns(&self) -> u64 {
        self.get().map_or(0, Sched::unplaced_ns)
    }

    /// Number of waits that were not counted because the task was unknown.
    pub(super) fn unknown_tasks(&self) -> u64 {
        self.get().map_or(0, Sched::unknown_tasks)
    }

    /// The scan that registers all unknown tasks; `None` if there is no room for another one.
    pub(super) fn task_seed(&mut self) -> Option<Scan> {
        let sched = self.get_mut::<Sched>()?;
        if sched.store().is_some_and(|store| store.is_exhausted()) {
            return None;
        }
        sched.seed()
    }

    pub(super) fn loaded(&self) -> impl Iterator<Item = &Loaded> {
        self.0.iter().map(Running::loaded)
    }

    /// The task and socket storage of all domains.
    pub(super) fn stores(&mut self) -> Vec<&mut Store> {
        self.0.iter_mut().filter_map(|domain| domain.store()).collect()
    }

    pub(super) fn losses(&self) -> Vec<LostUpdates> {
        self.0.iter().flat_map(|domain| domain.losses()).collect()
    }

    /// See [`Domain::in_use`].
    pub(super) fn in_use(&self) -> HashMap<&'static str, u64> {
        self.0.iter().flat_map(|domain| domain.in_use()).collect()
    }
}
