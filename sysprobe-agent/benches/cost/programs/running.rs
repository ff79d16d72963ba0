//! A domain's programs, started as the agent starts them.

use sysprobe_agent::bpf::{LoadError, Loaded, Loader, ProgramStatistics};
use sysprobe_agent::cgroup::events::Events;
use sysprobe_agent::plan::{Candidate, Plan};
use sysprobe_agent::probe::{Hook, TierSet};
use sysprobe_agent::sched::Sched;

/// Attached programs; dropping it detaches them.
pub(crate) enum Running {
    Sched(Box<Sched>),
    Cgroup(Box<Events>),
    /// A domain whose maps need no preparation.
    Plain(Loaded),
}

impl Running {
    pub(crate) fn start(
        loader: &Loader,
        domain: &str,
        set: &'static TierSet,
        candidate: &Candidate,
        plan: &Plan,
    ) -> Result<Self, LoadError> {
        match domain {
            "sched" => Sched::start(loader, set, candidate, plan).map(|sched| Self::Sched(Box::new(sched))),
            "cgroup" => Events::start(loader, set, candidate).map(|events| Self::Cgroup(Box::new(events))),
            _ => {
                let mut loaded = loader.load(set, &candidate.globals, &[])?;
                loaded.attach()?;
                Ok(Self::Plain(loaded))
            }
        }
    }

    pub(crate) fn loaded(&self) -> &Loaded {
        match self {
            Self::Sched(sched) => sched.loaded(),
            Self::Cgroup(events) => events.loaded(),
            Self::Plain(loaded) => loaded,
        }
    }

    pub(crate) fn programs(&self) -> Vec<ProgramStatistics> {
        self.loaded().programs().collect()
    }

    /// Goes over all tasks once more. By now they are known, so nothing is allocated for them.
    pub(crate) fn iterate(&mut self, set: &TierSet) -> Result<(), LoadError> {
        match self {
            Self::Sched(sched) => sched.seed_again(),
            Self::Cgroup(_) => Ok(()),
            Self::Plain(loaded) => {
                let mut iterators = set.programs.iter().filter(|program| program.hook == Hook::TaskIterator);
                iterators.try_for_each(|program| loaded.iterate(program.name))
            }
        }
    }

    /// Takes in what waits in ring buffers, as the agent does: a full one would save the programs work.
    pub(crate) fn drain(&mut self) {
        if let Self::Cgroup(events) = self {
            while events.pop().is_some() {}
        }
    }
}
