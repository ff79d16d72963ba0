//! Has the kernel verify every candidate of the plan as the domains load it, but with the smallest maps and
//! without attaching anything. The verdicts are therefore those that the agent would get. The facts have to
//! predict failures that appear only when a program is attached.

use schemars::JsonSchema;
use serde::Serialize;
use sysprobe_common::slot;

use crate::block::Block;
use crate::bpf::{LoadError, Loader};
use crate::cgroup_events::Events;
use crate::domain::Start;
use crate::host::Facts;
use crate::net::Net;
use crate::plan::{Candidate, Decision, Plan};
use crate::probe::{self, AttachMode, ProgramSet};
use crate::reclaim::Reclaim;
use crate::rxpath::Rxpath;
use crate::sched::Sched;
use crate::tcp::Tcp;
use crate::vfs::Vfs;

/// The kernel's verdict on one attach mode of a domain.
#[derive(Debug, JsonSchema, Serialize)]
pub(super) struct Trial {
    /// Name of the domain, such as `sched`.
    pub(super) domain: &'static str,
    /// The attach mode.
    #[serde(rename = "tier")]
    pub(super) mode: AttachMode,
    /// Whether the kernel accepted the programs.
    pub(super) verdict: Verdict,
}

/// The kernel's verdict on the programs of an attach mode.
#[derive(Debug, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    /// The kernel accepted the programs.
    Taken,
    /// The kernel rejected the programs, with this error.
    Refused(String),
}

type Load = fn(&Loader, &'static ProgramSet, &Candidate, &Plan) -> Result<(), LoadError>;

/// The start function of each domain that has programs.
const DOMAINS: [(&str, Load); 8] = [
    ("cgroup", |loader, set, candidate, _| Events::start(loader, set, candidate).map(drop)),
    load::<Sched>(),
    load::<Vfs>(),
    load::<Block>(),
    load::<Tcp>(),
    load::<Net>(),
    load::<Rxpath>(),
    load::<Reclaim>(),
];

const fn load<D: Start>() -> (&'static str, Load) {
    (D::NAME, |loader, set, candidate, plan| D::start(loader, set, candidate, plan).map(drop))
}

pub(super) fn of_plan(facts: &Facts, plan: &Plan) -> Vec<Trial> {
    let mut smallest = plan.clone();
    // The map holds the reserved slots only.
    smallest.slots = slot::FIRST_FREE;
    smallest.tasks = 1;
    let sizes = &mut smallest.sizes;
    (sizes.block, sizes.drops, sizes.interference) = (slot::FIRST_FREE, slot::FIRST_FREE, 1);
    (sizes.requests, sizes.reclaims, sizes.packets) = (1, 1, 1);
    let loader = Loader::new(&facts.btf_path).objects_from(plan.objects.as_deref()).only_trying(rings());
    let mut trials = Vec::new();
    for (domain, load) in DOMAINS {
        let Some(Decision::On(candidates)) = plan.decision(domain) else { continue };
        for candidate in candidates {
            let Some(set) = probe::program_set(domain, candidate.mode) else { continue };
            let verdict = match load(&loader, set, candidate, &smallest) {
                Ok(()) => Verdict::Taken,
                Err(error) => Verdict::Refused(error.to_string()),
            };
            trials.push(Trial { domain, mode: candidate.mode, verdict });
        }
    }
    trials
}

/// The attach mode that an agent would use.
pub(super) fn first_taken(trials: &[Trial], domain: &str) -> Option<AttachMode> {
    let mut mine = trials.iter().filter(|trial| trial.domain == domain);
    mine.find(|trial| matches!(trial.verdict, Verdict::Taken)).map(|trial| trial.mode)
}

/// A ring buffer has at least one page.
fn rings() -> Vec<(&'static str, u32)> {
    // SAFETY: `sysconf` has no preconditions.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u32::try_from(page).map(|page| ("CGROUP_EVENTS", page)).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::PROBES;

    #[test]
    fn every_domain_with_programs_is_tried() {
        let tried = DOMAINS.map(|(domain, _)| domain);
        assert!(PROBES.iter().all(|probe| tried.contains(&probe.domain)), "{tried:?}");
    }
}
