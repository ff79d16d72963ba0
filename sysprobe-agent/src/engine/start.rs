//! Starts one domain after the other, each by the first of its tiers that the kernel takes.

use tracing::{info, warn};

use crate::bpf::LoadError;
use crate::plan::{Candidate, Decision, Plan};
use crate::probe::{self, TierSet};
use crate::snapshot::DomainState;

/// Tries the plan's candidates until the kernel takes one. What was refused before is the reason, also of a domain
/// that is up.
pub(super) fn start_domain<T>(
    name: &'static str,
    plan: &Plan,
    domains: &mut Vec<DomainState>,
    start: impl Fn(&'static TierSet, &Candidate) -> Result<T, LoadError>,
) -> Option<T> {
    let domain = plan.domains.iter().find(|domain| domain.name == name)?;
    let candidates = match &domain.decision {
        Decision::On(candidates) => candidates.as_slice(),
        Decision::Off(reason) => {
            domains.push(off(name, "", reason.clone()));
            return None;
        }
    };
    let mut refused = Vec::new();
    for candidate in candidates {
        let tier = candidate.tier.name();
        let Some(set) = probe::tier_set(name, candidate.tier) else { continue };
        match start(set, candidate) {
            Ok(started) => {
                let reasons: Vec<_> = domain.passed_over.iter().cloned().chain(refused).collect();
                domains.push(up(name, tier, reasons.join("; ")));
                return Some(started);
            }
            Err(error) => refused.push(format!("{tier}: {error}")),
        }
    }
    let reasons: Vec<_> = domain.passed_over.iter().cloned().chain(refused).collect();
    domains.push(off(name, "", reasons.join("; ")));
    None
}

fn up(name: &str, hook: &str, reason: String) -> DomainState {
    if !reason.is_empty() {
        info!(domain = name, hook, reason, "Domain works through another hook than the cheapest.");
    }
    DomainState { name: name.into(), up: true, hook: hook.into(), reason }
}

fn off(name: &str, hook: &str, reason: String) -> DomainState {
    warn!(domain = name, reason, "Domain is off.");
    DomainState { name: name.into(), up: false, hook: hook.into(), reason }
}

pub(super) fn file_domain(name: &str, decision: Option<&Decision>) -> DomainState {
    match decision {
        Some(Decision::Off(reason)) => off(name, "file", reason.clone()),
        _ => up(name, "file", String::new()),
    }
}
