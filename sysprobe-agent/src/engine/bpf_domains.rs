//! The domains whose BPF programs keep counters per cgroup, as far as they could be started.

use std::collections::HashMap;
use std::io;
use std::time::Instant;

use sysprobe_common::sched::threads::Threads;
use tracing::warn;

use super::charging::SlotTable;
use super::start::start_domain;
use crate::block::Block;
use crate::bpf::{Loaded, Loader, Running, Scan};
use crate::domain::{Domain, Start};
use crate::net::Net;
use crate::plan::Plan;
use crate::reclaim::Reclaim;
use crate::rxpath::Rxpath;
use crate::sched::Sched;
use crate::sched::interference::Interference;
use crate::slots::SlotOwner;
use crate::snapshot::{DomainState, LostUpdates, SocketsSample};
use crate::storage::Store;
use crate::tcp::Tcp;
use crate::vfs::Vfs;

pub(super) struct BpfDomains {
    sched: Option<Sched>,
    vfs: Option<Vfs>,
    block: Option<Block>,
    tcp: Option<Tcp>,
    net: Option<Net>,
    rxpath: Option<Rxpath>,
    reclaim: Option<Reclaim>,
}

/// The domains that have been started.
macro_rules! each {
    ($of:ident, $as:ident, $domain:ty) => {{
        let domains: [Option<$domain>; 7] = [
            $of.sched.$as().map(|sched| sched as _),
            $of.vfs.$as().map(|vfs| vfs as _),
            $of.block.$as().map(|block| block as _),
            $of.tcp.$as().map(|tcp| tcp as _),
            $of.net.$as().map(|net| net as _),
            $of.rxpath.$as().map(|rxpath| rxpath as _),
            $of.reclaim.$as().map(|reclaim| reclaim as _),
        ];
        domains.into_iter().flatten()
    }};
}

impl BpfDomains {
    /// Starts what the plan enables; a domain that the kernel rejects is off with its reason.
    pub(super) fn start(loader: &Loader, plan: &Plan, domains: &mut Vec<DomainState>) -> Self {
        Self {
            sched: started(loader, plan, domains),
            vfs: started(loader, plan, domains),
            block: started(loader, plan, domains),
            tcp: started(loader, plan, domains),
            net: started(loader, plan, domains),
            // After `sched`, whose maps it uses.
            rxpath: started(loader, plan, domains),
            reclaim: started(loader, plan, domains),
        }
    }

    fn each(&self) -> impl Iterator<Item = &dyn Domain> {
        each!(self, as_ref, &dyn Domain)
    }

    fn each_mut(&mut self) -> impl Iterator<Item = &mut dyn Domain> {
        each!(self, as_mut, &mut dyn Domain)
    }

    /// Accounts for run intervals in progress, so that a reader sees them.
    pub(super) fn flush(&mut self) {
        if let Some(Err(error)) = self.sched.as_mut().map(Sched::flush) {
            warn!(%error, "Run intervals in progress could not be accounted for.");
        }
    }

    /// See [`Domain::remove_stale`].
    pub(super) fn remove_stale(&mut self, now: Instant, now_ns: u64) {
        self.each_mut().for_each(|domain| domain.remove_stale(now, now_ns));
    }

    /// The slots of every domain, to be charged.
    pub(super) fn slot_tables(&mut self) -> impl Iterator<Item = &mut dyn SlotTable> {
        let (waits, throttles) = self.sched.as_mut().map(Sched::slots).unzip();
        let (traffic, drops) = self.net.as_mut().map(Net::slots).unzip();
        let domains: [Option<&mut dyn SlotTable>; 9] = [
            waits.map(|slots| slots as _),
            throttles.map(|slots| slots as _),
            self.vfs.as_mut().map(|vfs| vfs.slots() as _),
            self.block.as_mut().map(|block| block.slots() as _),
            self.tcp.as_mut().map(|tcp| tcp.slots() as _),
            traffic.map(|slots| slots as _),
            drops.map(|slots| slots as _),
            self.rxpath.as_mut().map(|rxpath| rxpath.slots() as _),
            self.reclaim.as_mut().map(|reclaim| reclaim.slots() as _),
        ];
        domains.into_iter().flatten()
    }

    /// The sockets as of the last scan.
    pub(super) fn sockets(&self) -> &[(SlotOwner, SocketsSample)] {
        self.tcp.as_ref().map_or(&[], Tcp::sockets)
    }

    /// See [`Tcp::begin_scan`].
    pub(super) fn begin_socket_scan(&mut self) -> Option<Scan> {
        self.tcp.as_mut()?.begin_scan()
    }

    /// See [`Tcp::end_scan`].
    pub(super) fn end_socket_scan(&mut self) -> io::Result<()> {
        self.tcp.as_mut().map_or(Ok(()), Tcp::end_scan)
    }

    /// See [`Sched::begin_task_scan`].
    pub(super) fn begin_task_scan(&mut self) -> Option<Scan> {
        self.sched.as_mut()?.begin_task_scan()
    }

    /// The threads as of the last scan.
    pub(super) fn threads(&mut self) -> io::Result<Vec<(SlotOwner, Threads)>> {
        self.sched.as_mut().map_or_else(|| Ok(Vec::new()), Sched::threads)
    }

    pub(super) const fn vfs(&mut self) -> Option<&mut Vfs> {
        self.vfs.as_mut()
    }

    pub(super) const fn rxpath(&mut self) -> Option<&mut Rxpath> {
        self.rxpath.as_mut()
    }

    /// Interference: which owner waited while which other ran.
    pub(super) fn interference(&mut self) -> Option<&mut Interference> {
        self.sched.as_mut().map(Sched::interference)
    }

    /// Time that tasks waited for cgroups whose interference record found no room, in nanoseconds.
    pub(super) fn unplaced_ns(&self) -> u64 {
        self.sched.as_ref().map_or(0, Sched::unplaced_ns)
    }

    /// Number of waits that were not counted because the task was unknown.
    pub(super) fn unknown_tasks(&self) -> u64 {
        self.sched.as_ref().map_or(0, Sched::unknown_tasks)
    }

    /// The scan that registers all unknown tasks; `None` if there is no room for another one.
    pub(super) fn task_seed(&mut self) -> Option<Scan> {
        let sched = self.sched.as_mut()?;
        if sched.store().is_some_and(|store| store.is_exhausted()) {
            return None;
        }
        sched.seed()
    }

    pub(super) fn loaded(&self) -> impl Iterator<Item = &Loaded> {
        self.each().map(Running::loaded)
    }

    /// The task and socket storage of all domains.
    pub(super) fn stores(&mut self) -> Vec<&mut Store> {
        self.each_mut().filter_map(|domain| domain.store()).collect()
    }

    pub(super) fn losses(&self) -> Vec<LostUpdates> {
        self.each().flat_map(Domain::losses).collect()
    }

    /// See [`Domain::in_use`].
    pub(super) fn in_use(&self) -> HashMap<&'static str, u64> {
        self.each().flat_map(Domain::in_use).collect()
    }
}

/// By the first attach mode that the kernel accepts; `None` if the domain is off.
fn started<D: Start>(loader: &Loader, plan: &Plan, domains: &mut Vec<DomainState>) -> Option<D> {
    start_domain(D::NAME, plan, domains, |set, candidate| D::start(loader, set, candidate, plan))
}
