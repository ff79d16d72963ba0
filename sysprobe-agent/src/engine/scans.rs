//! Scans in two steps: between them the BPF iterator runs on its own thread, for as long as the number of
//! objects takes, and the engine does other work. Only one pass of each scan runs at a time.

use std::io;
use std::time::{Duration, Instant};

use sysprobe_common::sched::threads::Threads;
use tracing::warn;

use super::{Engine, charging};
use crate::bpf::{Pass, Scan};
use crate::domain::slots::SlotOwner;
use crate::host;
use crate::snapshot::load_average::period;

/// Minimum interval between scans of all tasks because an unknown one was met.
const SEED_INTERVAL_MIN: Duration = Duration::from_secs(10);

impl Engine {
    /// The scan that counts the threads; `None` if there is no such program.
    pub fn begin_task_scan(&mut self) -> Option<Scan> {
        self.bpf_domains.begin_task_scan()
    }

    /// Takes over the counts. After a failure no workload has threads, which is better than outdated counts.
    /// Load averages stay, and the next complete scan makes up for the missed periods.
    pub fn end_task_scan(&mut self, counted: io::Result<Pass>) {
        self.registry.forget_threads();
        match counted.and_then(is_complete).and_then(|()| self.bpf_domains.threads()) {
            Ok(threads) => {
                self.charge_threads(&threads);
                let periods = self.pace.take(host::monotonic(), period(host::tick_ns()));
                self.registry.fold_loads(periods);
            }
            Err(error) => warn!(%error, "The threads could not be counted."),
        }
    }

    fn charge_threads(&mut self, threads: &[(SlotOwner, Threads)]) {
        let populated = threads.iter().filter(|(_, threads)| *threads != Threads::NONE);
        let cgroups: Vec<u64> = populated
            .filter_map(|(owner, _)| match owner {
                SlotOwner::Cgroup(id) => Some(*id),
                SlotOwner::Kernel | SlotOwner::Unknown => None,
            })
            .collect();
        charging::resolve_all(&cgroups, &mut self.tracker, &mut self.attribution);
        charging::count_threads(threads, &self.tracker, &self.attribution, &mut self.registry);
    }

    /// The scan that reads and counts the sockets; `None` if there is no such program.
    pub fn begin_socket_scan(&mut self) -> Option<Scan> {
        self.bpf_domains.begin_socket_scan()
    }

    /// Takes over the counts. After a failed or truncated pass, the counts of the last complete one stay.
    pub fn end_socket_scan(&mut self, counted: io::Result<Pass>) {
        if let Err(error) = counted.and_then(is_complete).and_then(|()| self.bpf_domains.end_socket_scan()) {
            warn!(%error, "The sockets could not be counted.");
        }
    }

    /// The scan that registers tasks whose creation was missed, if one was met since the last scan.
    pub fn begin_task_seed(&mut self) -> Option<Scan> {
        let (missed, now) = (self.bpf_domains.unknown_tasks(), Instant::now());
        if missed == self.seeded.0 || now.duration_since(self.seeded.1) < SEED_INTERVAL_MIN {
            return None;
        }
        self.seeded = (missed, now);
        self.bpf_domains.task_seed()
    }
}

fn is_complete(pass: Pass) -> io::Result<()> {
    if pass.is_complete { Ok(()) } else { Err(io::Error::other("the scan did not finish in time")) }
}
