//! Starts one domain after the other, each in the first attach mode that the kernel accepts. New cgroups are
//! named meanwhile.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::bail;
use clap::ValueEnum;
use tracing::{info, warn};

use super::attribution::Attribution;
use super::cgroup_tracker::CgroupTracker;
use crate::bpf::{LoadError, Running};
use crate::plan::{Candidate, Decision, Plan, Reason};
use crate::probe::{self, AttachMode, ProgramSet};
use crate::snapshot::DomainState;

/// Containers live longer than this, and so do the runtime's files that hold their names.
const RESOLVE_EVERY: Duration = Duration::from_millis(50);

/// Processes cgroup events, and resolves new cgroups while their sources still know them: a pod may be gone
/// before the next scrape.
pub(super) fn resolve_new_cgroups(tracker: &mut CgroupTracker, attribution: &mut Attribution, now: Instant) {
    tracker.update(now);
    for id in tracker.take_fresh() {
        if let Some(cgroup) = tracker.tree().get(id) {
            attribution.resolve(id, cgroup, now);
        }
    }
}

/// Resolves new cgroups while `load` blocks this thread for a second or two, in which a container may come
/// and go.
pub(super) fn resolving_meanwhile<T>(
    tracker: &mut CgroupTracker,
    attribution: &mut Attribution,
    load: impl FnOnce() -> T,
) -> T {
    let (loading, over) = mpsc::channel::<()>();
    let resolve = move || {
        while over.recv_timeout(RESOLVE_EVERY) == Err(RecvTimeoutError::Timeout) {
            resolve_new_cgroups(tracker, attribution, Instant::now());
        }
    };
    thread::scope(|scope| {
        let resolver = thread::Builder::new().name("resolver".into()).spawn_scoped(scope, resolve);
        if let Err(error) = resolver {
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
    start: impl Fn(&'static ProgramSet, &Candidate) -> Result<T, LoadError>,
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
        let mode = candidate.mode;
        let Some(set) = probe::program_set(name, mode) else { continue };
        match start(set, candidate) {
            Ok(started) => {
                against.retain(|other| probe::rank(name, other.mode) < probe::rank(name, mode));
                let reasons = std::iter::once(on_one_line(name, against)).filter(|reason| !reason.is_empty());
                let reasons: Vec<_> = reasons.chain(started.loaded().left_out()).collect();
                let unseen = started.loaded().unseen().map(str::to_owned).collect();
                domains.push(DomainState { unseen, ..up(name, mode.name(), reasons.join("; ")) });
                return Some(started);
            }
            Err(error) => against.push(Reason { mode, reason: error.to_string() }),
        }
    }
    domains.push(off(name, "", on_one_line(name, against)));
    None
}

/// Joins the reasons in the order of the probe table, whatever their source.
fn on_one_line(domain: &str, mut reasons: Vec<Reason>) -> String {
    reasons.sort_by_key(|reason| probe::rank(domain, reason.mode));
    reasons.iter().map(Reason::to_string).collect::<Vec<_>>().join("; ")
}

fn up(name: &str, mode: &str, reason: String) -> DomainState {
    if !reason.is_empty() {
        info!(domain = name, mode, reason, "Domain works with limitations.");
    }
    DomainState { name: name.into(), up: true, mode: mode.into(), reason, ..DomainState::default() }
}

fn off(name: &str, mode: &str, reason: String) -> DomainState {
    warn!(domain = name, reason, "Domain is off.");
    DomainState { name: name.into(), mode: mode.into(), reason, ..DomainState::default() }
}

/// The state of a domain that reads files, which it has found or not.
pub(super) fn file_domain(name: &str, decision: Option<&Decision>, is_found: bool) -> DomainState {
    match decision {
        Some(Decision::Off(reason)) => off(name, "file", reason.clone()),
        Some(Decision::On(_)) if is_found => up(name, "file", String::new()),
        _ => off(name, "file", "its files were not found".to_owned()),
    }
}

/// The attach mode of a domain, if it is up.
pub(super) fn mode_in_use(domains: &[DomainState], name: &str) -> Option<AttachMode> {
    let state = domains.iter().find(|domain| domain.name == name && domain.up)?;
    AttachMode::value_variants().iter().copied().find(|mode| mode.name() == state.mode)
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
