//! Scans, each in two steps: between them the iterator runs on a thread of its own, which takes as long as
//! there are many objects, and the engine does other things. Of each scan one pass runs at a time.

use std::io;
use std::time::{Duration, Instant};

use sysprobe_common::sched::threads::Threads;
use tracing::warn;

use super::{Engine, charging};
use crate::bpf::{Pass, Scan};
use crate::host;
use crate::sched::load::period;
use crate::slots::Owner;

/// How often all tasks are gone over again because one was met that is not known.
const SEED_AT_MOST: Duration = Duration::from_secs(10);

impl Engine {
    /// What counts the threads; `None` if nothing can.
    pub fn begin_census(&mut self) -> Option<Scan> {
        self.measured.begin_census()
    }

    /// Takes in what was counted. If that failed, nothing has threads, which is better than those of long
    /// ago.
    pub fn end_census(&mut self, counted: io::Result<Pass>) {
        self.registry.forget_threads();
        match counted.and_then(is_complete).and_then(|()| self.measured.threads()) {
            Ok(threads) => self.charge_threads(&threads),
            Err(error) => warn!(%error, "The threads could not be counted."),
        }
        let periods = self.pace.take(host::monotonic(), period(host::tick_ns()));
        self.registry.fold_loads(periods);
    }

    fn charge_threads(&mut self, threads: &[(Owner, Threads)]) {
        let populated = threads.iter().filter(|(_, threads)| *threads != Threads::NONE);
        let cgroups: Vec<u64> = populated
            .filter_map(|(owner, _)| match owner {
                Owner::Cgroup(id) => Some(*id),
                Owner::Kernel | Owner::Unknown => None,
            })
            .collect();
        charging::settle(&cgroups, &mut self.identity, &mut self.attribution);
        charging::count_threads(threads, &self.attribution, &mut self.registry);
    }

    /// What books and counts the sockets; `None` if nothing can.
    pub fn begin_socket_scan(&mut self) -> Option<Scan> {
        self.measured.begin_socket_scan()
    }

    /// Takes in what was counted. If that failed, or was cut, the counts of the last complete pass stay.
    pub fn end_socket_scan(&mut self, counted: io::Result<Pass>) {
        if let Err(error) = counted.and_then(is_complete).and_then(|()| self.measured.end_socket_scan()) {
            warn!(%error, "The sockets could not be counted.");
        }
    }

    /// What makes tasks known whose birth was missed, if any has been met since the last time.
    pub fn begin_task_seed(&mut self) -> Option<Scan> {
        let (missed, now) = (self.measured.unknown_tasks(), Instant::now());
        if missed == self.greeted.0 || now.duration_since(self.greeted.1) < SEED_AT_MOST {
            return None;
        }
        self.greeted = (missed, now);
        self.measured.task_seed()
    }
}

fn is_complete(pass: Pass) -> io::Result<()> {
    if pass.is_complete { Ok(()) } else { Err(io::Error::other("the scan did not finish in time")) }
}
