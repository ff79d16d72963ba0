//! Starts one domain after the other, each in the first attach mode that the kernel accepts. New cgroups are
//! named meanwhile.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::bail;
use clap::ValueEnum;
use tracing::{info, warn};

use super::attribution::Attribution;
use super::identity::Identity;
use crate::bpf::{LoadError, Running};
use crate::plan::{Candidate, Decision, Plan, Reason};
use crate::probe::{self, Tier, TierSet};
use crate::snapshot::DomainState;

/// Containers live longer than this, and so do the runtime's files that hold their names.
const GREET_EVERY: Duration = Duration::from_millis(50);

/// Processes cgroup events, and resolves new cgroups while their sources still know them: a pod may be gone
/// before the next scrape.
pub(super) fn greet_the_new(identity: &mut Identity, attribution: &mut Attribution, now: Instant) {
    identity.update(now);
    for id in identity.take_fresh() {
        if let Some(cgroup) = identity.tree().get(id) {
            attribution.settle(id, cgroup, now);
        }
    }
}

/// Resolves new cgroups while `load` blocks this thread for a second or two, in which a container may come
/// and go.
pub(super) fn greeting_meanwhile<T>(
    identity: &mut Identity,
    attribution: &mut Attribution,
    load: impl FnOnce() -> T,
) -> T {
    let (loading, over) = mpsc::channel::<()>();
    let greet = move || {
        while over.recv_timeout(GREET_EVERY) == Err(RecvTimeoutError::Timeout) {
            greet_the_new(identity, attribution, Instant::now());
        }
    };
    thread::scope(|scope| {
        let greeter = thread::Builder::new().name("greeter".into()).spawn_scoped(scope, greet);
        if let Err(error) = greeter {
            warn!(%error, "Cgroups are not named during startup; short-lived containers may keep their IDs.");
        }
        let loaded = load();
        drop(loading);
        loaded
    })
}

/// Tries the plan's candidates until the kernel accepts one. The reasons against the attach modes before it
/// become the domain's reason, even if it is up.
pub(super) fn start_domain<T: Running>(
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
    let mut against = domain.passed_over.clone();
    for candidate in candidates {
        let tier = candidate.tier;
        let Some(set) = probe::tier_set(name, tier) else { continue };
        match start(set, candidate) {
            Ok(started) => {
                against.retain(|other| probe::rank(name, other.tier) < probe::rank(name, tier));
                let reasons = std::iter::once(on_one_line(name, against)).filter(|reason| !reason.is_empty());
                let reasons: Vec<_> = reasons.chain(started.loaded().left_out()).collect();
                let unseen = started.loaded().unseen().map(str::to_owned).collect();
                domains.push(DomainState { unseen, ..up(name, tier.name(), reasons.join("; ")) });
                return Some(started);
            }
            Err(error) => against.push(Reason { tier, reason: error.to_string() }),
        }
    }
    domains.push(off(name, "", on_one_line(name, against)));
    None
}

/// Joins the reasons in the order of the probe table, whatever their source.
fn on_one_line(domain: &str, mut reasons: Vec<Reason>) -> String {
    reasons.sort_by_key(|reason| probe::rank(domain, reason.tier));
    reasons.iter().map(Reason::to_string).collect::<Vec<_>>().join("; ")
}

fn up(name: &str, hook: &str, reason: String) -> DomainState {
    if !reason.is_empty() {
        info!(domain = name, hook, reason, "Domain works with limitations.");
    }
    DomainState { name: name.into(), up: true, hook: hook.into(), reason, ..DomainState::default() }
}

fn off(name: &str, hook: &str, reason: String) -> DomainState {
    warn!(domain = name, reason, "Domain is off.");
    DomainState { name: name.into(), hook: hook.into(), reason, ..DomainState::default() }
}

pub(super) fn file_domain(name: &str, decision: Option<&Decision>) -> DomainState {
    match decision {
        Some(Decision::Off(reason)) => off(name, "file", reason.clone()),
        _ => up(name, "file", String::new()),
    }
}

/// The attach mode of a domain, if it is up.
pub(super) fn tier_in_use(domains: &[DomainState], name: &str) -> Option<Tier> {
    let state = domains.iter().find(|domain| domain.name == name && domain.up)?;
    Tier::value_variants().iter().copied().find(|tier| tier.name() == state.hook)
}

/// Fails unless a domain that exports metrics is up; the cgroup events alone export none.
pub(super) fn require_exports(domains: &[DomainState]) -> anyhow::Result<()> {
    let exporting = domains.iter().filter(|domain| domain.name != "cgroup");
    if exporting.clone().any(|domain| domain.up) {
        return Ok(());
    }
    let reasons: Vec<_> = exporting.map(|domain| format!("{}: {}", domain.name, domain.reason)).collect();
    bail!("nothing would be exported, because no domain works. {}", reasons.join(". "))
}
