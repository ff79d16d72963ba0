//! The domains whose BPF programs keep counters per cgroup, as far as they could be started.

use std::io;
use std::time::Instant;

use sysprobe_common::sched::threads::Threads;
use tracing::warn;

use super::charging::SlotTable;
use super::start::start_domain;
use crate::block::Block;
use crate::bpf::{Loaded, Loader, Running as _, Scan};
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

impl BpfDomains {
    /// Starts what the plan enables; a domain that the kernel rejects is off with its reason.
    pub(super) fn start(loader: &Loader, plan: &Plan, domains: &mut Vec<DomainState>) -> Self {
        Self {
            sched: start_domain("sched", plan, domains, |set, candidate| {
                Sched::start(loader, set, candidate, plan)
            }),
            vfs: start_domain("vfs", plan, domains, |set, candidate| {
                Vfs::start(loader, set, candidate, plan)
            }),
            block: start_domain("block", plan, domains, |set, candidate| {
                Block::start(loader, set, candidate, plan)
            }),
            tcp: start_domain("tcp", plan, domains, |set, candidate| {
                Tcp::start(loader, set, candidate, plan)
            }),
            net: start_domain("net", plan, domains, |set, candidate| {
                Net::start(loader, set, candidate, plan)
            }),
            // After `sched`, whose maps it uses.
            rxpath: start_domain("rxpath", plan, domains, |set, candidate| {
                Rxpath::start(loader, set, candidate, plan)
            }),
            reclaim: start_domain("reclaim", plan, domains, |set, candidate| {
                Reclaim::start(loader, set, candidate, plan)
            }),
        }
    }

    /// Accounts for run intervals in progress, so that a reader sees them.
    pub(super) fn flush(&mut self) {
        if let Some(Err(error)) = self.sched.as_mut().map(Sched::flush) {
            warn!(%error, "Run intervals in progress could not be accounted for.");
        }
    }

    /// Removes operations in progress whose end was missed.
    pub(super) fn remove_stale(&mut self, now: Instant, now_ns: u64) {
        if let Some(vfs) = &mut self.vfs {
            vfs.update(now, now_ns);
        }
        if let Some(block) = &mut self.block {
            block.update(now, now_ns);
        }
        if let Some(reclaim) = &mut self.reclaim {
            reclaim.update(now, now_ns);
        }
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
        let domains = [
            self.sched.as_ref().map(Sched::loaded),
            self.vfs.as_ref().map(Vfs::loaded),
            self.block.as_ref().map(Block::loaded),
            self.tcp.as_ref().map(Tcp::loaded),
            self.net.as_ref().map(Net::loaded),
            self.rxpath.as_ref().map(Rxpath::loaded),
            self.reclaim.as_ref().map(Reclaim::loaded),
        ];
        domains.into_iter().flatten()
    }

    /// The task and socket storage of all domains.
    pub(super) fn stores(&mut self) -> Vec<&mut Store> {
        let stores = [
            self.sched.as_mut().and_then(Sched::store),
            self.vfs.as_mut().and_then(Vfs::store),
            self.tcp.as_mut().and_then(Tcp::store),
            self.net.as_mut().and_then(Net::store),
            self.rxpath.as_mut().and_then(Rxpath::store),
        ];
        stores.into_iter().flatten().collect()
    }

    pub(super) fn losses(&self) -> Vec<LostUpdates> {
        let mut losses: Vec<_> = self.sched.iter().flat_map(Sched::losses).collect();
        losses.extend(self.vfs.iter().flat_map(Vfs::losses));
        losses.extend(self.block.iter().flat_map(Block::losses));
        losses.extend(self.tcp.iter().flat_map(Tcp::losses));
        losses.extend(self.net.iter().flat_map(Net::losses));
        losses.extend(self.rxpath.iter().flat_map(Rxpath::losses));
        losses.extend(self.reclaim.iter().flat_map(Reclaim::losses));
        losses
    }

    /// Number of entries in a map.
    pub(super) fn entries(&self, map: &str) -> Option<u64> {
        match map {
            "SCHED_SLOTS" => self.sched.as_ref().map(|sched| sched.slots_in_use().0),
            "SCHED_THR_SLOTS" => self.sched.as_ref().map(|sched| sched.slots_in_use().1),
            "SCHED_INTERFERENCE" => self.sched.as_ref().map(Sched::interference_in_use),
            "VFS_SLOTS" => self.vfs.as_ref().map(Vfs::slots_in_use),
            "VFS_STARTED" => self.vfs.as_ref().map(Vfs::started),
            "BLOCK_IN_FLIGHT" => self.block.as_ref().map(Block::in_flight),
            "BLOCK_SLOTS" => self.block.as_ref().map(Block::slots_in_use),
            "TCP_SLOTS" => self.tcp.as_ref().map(Tcp::slots_in_use),
            "NET_SLOTS" => self.net.as_ref().map(|net| net.slots_in_use().0),
            "NET_DROP_SLOTS" => self.net.as_ref().map(|net| net.slots_in_use().1),
            "RXPATH_SLOTS" => self.rxpath.as_ref().map(Rxpath::slots_in_use),
            "RECLAIM_BEGUN" => self.reclaim.as_ref().map(Reclaim::in_progress),
            "RECLAIM_SLOTS" => self.reclaim.as_ref().map(Reclaim::slots_in_use),
            _ => None,
        }
    }
}
