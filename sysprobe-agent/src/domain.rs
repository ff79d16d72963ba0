//! The domains, and the table of those whose BPF programs count per cgroup. The engine starts these, and
//! `check` tries them, from here; [`traits`] is what the engine asks of each. `cgroup`, whose programs report
//! events, is started by the engine's tracker. `cpu`, `memory` and `pressure` read files.

pub mod traits;

pub mod in_progress;
mod operation;
pub mod slots;
mod times;
mod traffic;

pub mod block;
pub mod cgroup;
pub mod cpu;
pub mod memory;
pub mod net;
pub mod pressure;
pub mod reclaim;
pub mod rxpath;
pub mod sched;
pub mod tcp;
pub mod vfs;

use crate::bpf::{LoadError, Loader};
use crate::plan::{Candidate, Plan};
use crate::probe::ProgramSet;
use traits::{Domain, Start};

/// The domains in the order in which they are started: `net` uses maps of `tcp`, and `rxpath` those of
/// `sched`.
pub static DOMAINS: &[Row] = &[
    Row::of::<sched::Sched>(),
    Row::of::<vfs::Vfs>(),
    Row::of::<block::Block>(),
    Row::of::<tcp::Tcp>(),
    Row::of::<net::Net>(),
    Row::of::<rxpath::Rxpath>(),
    Row::of::<reclaim::Reclaim>(),
];

/// The row of a domain.
#[must_use]
pub fn row(domain: &str) -> Option<&'static Row> {
    DOMAINS.iter().find(|row| row.name == domain)
}

/// A domain.
pub struct Row {
    /// As in the table of probes.
    pub name: &'static str,
    pub start: StartDomain,
}

/// See [`Start::start`].
pub type StartDomain =
    fn(&Loader, &'static ProgramSet, &Candidate, &Plan) -> Result<Box<dyn Domain>, LoadError>;

impl Row {
    const fn of<D: Start>() -> Self {
        Self {
            name: D::NAME,
            start: |loader, set, candidate, plan| Ok(Box::new(D::start(loader, set, candidate, plan)?)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Domains;

    /// The tracker of cgroups starts `cgroup`.
    #[test]
    fn every_domain_with_programs_is_in_the_table() {
        assert!(DOMAINS.iter().map(|row| row.name).eq(Domains::with_programs()));
    }
}
