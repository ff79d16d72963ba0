//! The table of domains with BPF programs that count per cgroup. The engine starts them, and `check` tries
//! them, from here.

use crate::block::Block;
use crate::bpf::{LoadError, Loader};
use crate::domain::{Domain, Start};
use crate::net::Net;
use crate::plan::{Candidate, Plan};
use crate::probe::ProgramSet;
use crate::reclaim::Reclaim;
use crate::rxpath::Rxpath;
use crate::sched::Sched;
use crate::tcp::Tcp;
use crate::vfs::Vfs;

/// The domains in the order in which they are started: `net` uses maps of `tcp`, and `rxpath` those of
/// `sched`.
pub static DOMAINS: &[Row] = &[
    Row::of::<Sched>(),
    Row::of::<Vfs>(),
    Row::of::<Block>(),
    Row::of::<Tcp>(),
    Row::of::<Net>(),
    Row::of::<Rxpath>(),
    Row::of::<Reclaim>(),
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
