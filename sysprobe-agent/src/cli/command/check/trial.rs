//! Has the kernel verify every candidate of the plan as the domains load it, but with the smallest maps and
//! without attaching anything. The verdicts are therefore those that the agent would get. The facts have to
//! predict failures that appear only when a program is attached.

use schemars::JsonSchema;
use serde::Serialize;

use crate::bpf::{LoadError, Loader};
use crate::domain;
use crate::domain::cgroup::Events;
use crate::host::Facts;
use crate::plan::{Candidate, Decision, Plan};
use crate::probe::{self, AttachMode, MapKind, PROBES, ProgramSet};

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

pub(super) fn of_plan(facts: &Facts, plan: &Plan) -> Vec<Trial> {
    let smallest = plan.smallest();
    let loader = Loader::new(&facts.btf_path).objects_from(plan.objects.as_deref()).only_trying(rings());
    let mut trials = Vec::new();
    for domain in PROBES.iter().map(|probe| probe.domain) {
        let Some(Decision::On(candidates)) = plan.decision(domain) else { continue };
        for candidate in candidates {
            let Some(set) = probe::program_set(domain, candidate.mode) else { continue };
            let verdict = match start(&loader, (domain, set), candidate, &smallest) {
                Ok(()) => Verdict::Taken,
                Err(error) => Verdict::Refused(error.to_string()),
            };
            trials.push(Trial { domain, mode: candidate.mode, verdict });
        }
    }
    trials
}

/// Starts a domain as the agent does, and stops it again.
fn start(
    loader: &Loader,
    (domain, set): (&str, &'static ProgramSet),
    candidate: &Candidate,
    plan: &Plan,
) -> Result<(), LoadError> {
    match domain::row(domain) {
        Some(row) => (row.start)(loader, set, candidate, plan).map(drop),
        None => Events::start(loader, set, candidate).map(drop),
    }
}

/// The attach mode that an agent would use.
pub(super) fn first_taken(trials: &[Trial], domain: &str) -> Option<AttachMode> {
    let mut mine = trials.iter().filter(|trial| trial.domain == domain);
    mine.find(|trial| matches!(trial.verdict, Verdict::Taken)).map(|trial| trial.mode)
}

/// The smallest sizes of the ring buffers: a page each.
fn rings() -> Vec<(&'static str, u32)> {
    // SAFETY: `sysconf` has no preconditions.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    let Ok(page) = u32::try_from(page) else { return Vec::new() };
    let maps = PROBES.iter().flat_map(|probe| probe.sets).flat_map(ProgramSet::maps);
    maps.filter(|map| map.kind == MapKind::RingBuffer).map(|map| (map.name, page)).collect()
}
