//! What is measured: the programs of a domain in one attach mode, started as the agent starts them, and an
//! empty one beside each.

use std::time::{Duration, Instant};

use anyhow::Result;
use sysprobe_agent::bpf::{LoadError, Loaded, Loader, ProgramStatistics, Running as _};
use sysprobe_agent::domain;
use sysprobe_agent::domain::cgroup::Events;
use sysprobe_agent::domain::rxpath::Rxpath;
use sysprobe_agent::domain::sched::Sched;
use sysprobe_agent::domain::tcp::Tcp;
use sysprobe_agent::domain::traits::Domain;
use sysprobe_agent::plan::{Candidate, Decision, Plan};
use sysprobe_agent::probe::{self, Hook, ProgramSet};

use super::empty::{Empties, pass};

/// Dropping it detaches all of them.
pub(crate) struct Cast {
    set: &'static ProgramSet,
    running: Running,
    empties: Empties,
}

/// A domain's attached programs.
pub(crate) enum Running {
    Domain(Box<dyn Domain>),
    Cgroup(Box<Events>),
}

impl Cast {
    pub(crate) fn new(loader: &Loader, set: &'static ProgramSet, running: Running) -> Result<Self> {
        let empties = Empties::start(loader, set.programs)?;
        Ok(Self { set, running, empties })
    }

    /// Statistics in the table's order: of the program, and of the empty one beside it. What the kernel
    /// refused has not run.
    pub(crate) fn statistics(&self) -> Vec<(ProgramStatistics, ProgramStatistics)> {
        let running: Vec<_> = self.running.loaded().programs().collect();
        let rows = self.set.programs.iter().zip(self.empties.programs());
        rows.map(|(row, empty)| {
            let never = ProgramStatistics::never_run(row.name, row.hook);
            let own = running.iter().find(|statistics| statistics.name == row.name).copied();
            (own.unwrap_or(never), empty.unwrap_or(never))
        })
        .collect()
    }

    /// Runs once what is run on demand.
    pub(crate) fn run_on_demand(&self, cpu: u32) -> Result<()> {
        for program in self.set.programs.iter().filter(|program| program.hook == Hook::OnDemand) {
            self.running.loaded().run_on(program.name, &[cpu])?;
        }
        self.empties.run_on(cpu)
    }

    /// Goes over all tasks once more.
    pub(crate) fn iterate(&mut self) -> Result<()> {
        match &mut self.running {
            Running::Domain(domain) => {
                if let Some(sched) = domain.downcast_mut::<Sched>() {
                    pass(sched.seed())?;
                    pass(sched.begin_task_scan())?;
                }
            }
            Running::Cgroup(_) => {}
        }
        self.empties.iterate()
    }

    /// Goes over all sockets.
    pub(crate) fn scan_sockets(&mut self, cpu: u32) -> Result<()> {
        if let Running::Domain(domain) = &mut self.running
            && let Some(tcp) = domain.downcast_mut::<Tcp>()
        {
            pass(tcp.begin_scan())?;
        }
        self.empties.run_on(cpu)
    }

    /// Takes in what waits in ring buffers, as the agent does: a full one would save the programs work.
    pub(crate) fn drain(&mut self) {
        if let Running::Cgroup(events) = &mut self.running {
            while events.pop().is_some() {}
        }
    }
}

impl Running {
    /// Has the time go by in which packets are noted, where a small share of them is followed.
    pub(crate) fn pause(&mut self) {
        if let Self::Domain(domain) = self
            && let Some(rxpath) = domain.downcast_mut::<Rxpath>()
        {
            let now = Instant::now();
            (0..3).for_each(|second| rxpath.update(now + second * Duration::from_secs(1)));
        }
    }

    pub(crate) fn start(
        loader: &Loader,
        domain: &str,
        set: &'static ProgramSet,
        candidate: &Candidate,
        plan: &Plan,
    ) -> Result<Self, LoadError> {
        match domain::row(domain) {
            Some(row) => (row.start)(loader, set, candidate, plan).map(Self::Domain),
            None => Events::start(loader, set, candidate).map(|events| Self::Cgroup(Box::new(events))),
        }
    }

    /// By the first attach mode that the kernel takes, as the agent does.
    pub(crate) fn start_first(
        loader: &Loader,
        plan: &Plan,
        domain: &str,
    ) -> Option<(&'static ProgramSet, Self)> {
        let Some(Decision::On(candidates)) = plan.decision(domain) else { return None };
        candidates.iter().find_map(|candidate| {
            let set = probe::program_set(domain, candidate.mode)?;
            let running = Self::start(loader, domain, set, candidate, plan).ok()?;
            Some((set, running))
        })
    }

    pub(crate) fn loaded(&self) -> &Loaded {
        match self {
            Self::Domain(domain) => domain.loaded(),
            Self::Cgroup(events) => events.loaded(),
        }
    }
}
