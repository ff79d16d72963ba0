//! Counts all threads, in two steps: between them the iterator runs, which takes as long as there are many, and nobody need wait for it.

use sysprobe_common::sched::threads::Threads;
use tracing::warn;

use super::{Engine, charging};
use crate::bpf::Walk;
use crate::host;
use crate::sched::load::period;
use crate::slots::Owner;

impl Engine {
    /// What counts them; `None` if nobody can.
    pub fn begin_census(&mut self) -> Option<Walk> {
        self.measured.begin_census()
    }

    /// Takes in what was counted. If that failed, nobody has threads, which is better than those of long ago.
    pub fn end_census(&mut self, counted: std::io::Result<()>) {
        self.registry.forget_threads();
        match counted.and_then(|()| self.measured.threads()) {
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
}
