//! The report as text.

use std::io::{self, Write};
use std::path::Path;

use super::trial::{Trial, Verdict, first_taken};
use super::{Agent, Report};
use crate::cgroup::mounts::KeyHierarchy;
use crate::host::Facts;
use crate::host::known_bugs::KnownBug;
use crate::plan::{Decision, DomainPlan, Plan};
use crate::pods::{PodsPlan, SourceKind};
use crate::probe::{self, AttachMode};
use crate::snapshot::{DomainState, PodSourceSample};
use crate::storage::Limits;

pub(super) fn write(out: &mut impl Write, report: &Report, socket: &Path) -> io::Result<()> {
    facts(out, &report.facts)?;
    writeln!(out, "Domains")?;
    for plan in &report.plan.domains {
        domain(out, plan, report.trials.as_deref())?;
    }
    known_bugs(out, &report.known_bugs)?;
    pods(out, &report.plan.pods)?;
    sizes(out, &report.plan)?;
    memory(out, &report.plan)?;
    storage(out, &report.plan.storage)?;
    for warning in &report.plan.warnings {
        writeln!(out, "Warning: {warning}")?;
    }
    agent(out, &report.agent, socket)
}

/// Writes an indented line: a name column, then the value.
fn line(out: &mut impl Write, name: &str, value: &str) -> io::Result<()> {
    writeln!(out, "  {name:<14}{value}")
}

fn facts(out: &mut impl Write, facts: &Facts) -> io::Result<()> {
    writeln!(out, "Host")?;
    line(out, "kernel", &facts.kernel)?;
    let cpus = &facts.cpus;
    let (online, possible, caches) = (cpus.online.len(), cpus.possible, cpus.caches.len());
    line(out, "cpus", &format!("{online} online, {possible} possible; last-level caches: {caches}"))?;
    let steering = if facts.queues.steers_packets { "to other CPUs (RPS)" } else { "none" };
    line(out, "steering", steering)?;
    privileges(out, facts)?;
    match &facts.layout {
        Ok(_) => line(out, "btf", &facts.btf_path.display().to_string())?,
        Err(reason) => line(out, "btf", reason)?,
    }
    match &facts.hierarchy {
        Ok(hierarchy) => line(out, "cgroups", &cgroups(&hierarchy.key))?,
        Err(reason) => line(out, "cgroups", reason)?,
    }
    let seen = if facts.sees_all_processes { "all of the host" } else { "only those of a PID namespace" };
    line(out, "processes", seen)
}

/// Whether the process has all required privileges, and below it the cost of each missing capability.
fn privileges(out: &mut impl Write, facts: &Facts) -> io::Result<()> {
    let privilege = &facts.privilege;
    let missing = privilege.missing();
    let said = if missing.is_empty() { "sufficient".into() } else { format!("lacks {}", missing.join(", ")) };
    line(out, "privileges", &said)?;
    for right in privilege.lacks(&facts.kernel) {
        line(out, "", &format!("without {}: {}", right.capability, right.without))?;
    }
    if let Some(bytes) = privilege.locked_memory_bytes {
        line(out, "locked memory", &format!("up to {} KiB", bytes / 1024))?;
    }
    Ok(())
}

fn cgroups(key: &KeyHierarchy) -> String {
    match key {
        KeyHierarchy::V2 { root } => format!("v2 at {}", root.display()),
        KeyHierarchy::V1 { root, .. } => format!("v1, cpu controller at {}", root.display()),
    }
}

/// The domain, and below it its attach modes in the order in which the agent tries them.
fn domain(out: &mut impl Write, plan: &DomainPlan, trials: Option<&[Trial]>) -> io::Result<()> {
    let candidates = match &plan.decision {
        Decision::Off(reason) => return line(out, plan.name, &format!("off: {reason}")),
        Decision::On(candidates) if candidates.is_empty() => return line(out, plan.name, "on"),
        Decision::On(candidates) => candidates,
    };
    let state = match trials.map(|trials| first_taken(trials, plan.name)) {
        Some(Some(mode)) => format!("on, by {}", mode.name()),
        Some(None) => "off: the kernel accepts none of its attach modes".to_owned(),
        None => "on, by the first attach mode that the kernel accepts".to_owned(),
    };
    line(out, plan.name, &state)?;
    let verdict = |mode| {
        let mut trials = trials?.iter();
        trials.find(|trial| (trial.domain, trial.mode) == (plan.name, mode)).map(|trial| &trial.verdict)
    };
    let mut rows: Vec<(AttachMode, String)> =
        candidates.iter().map(|candidate| (candidate.mode, said(verdict(candidate.mode)))).collect();
    rows.extend(plan.passed_over.iter().map(|reason| (reason.mode, format!("not tried: {}", reason.reason))));
    rows.sort_by_key(|(mode, _)| probe::rank(plan.name, *mode));
    rows.iter().try_for_each(|(mode, said)| row(out, *mode, said))
}

fn said(verdict: Option<&Verdict>) -> String {
    match verdict {
        Some(Verdict::Taken) => "taken".to_owned(),
        Some(Verdict::Refused(reason)) => format!("refused: {reason}"),
        None => "to be tried".to_owned(),
    }
}

/// Continuation lines of the verifier's message are indented below the first line.
fn row(out: &mut impl Write, mode: AttachMode, said: &str) -> io::Result<()> {
    let mut lines = said.lines();
    writeln!(out, "  {:<14}{:<8}{}", "", mode.name(), lines.next().unwrap_or_default())?;
    lines.try_for_each(|line| writeln!(out, "  {:<22}  {line}", ""))
}

/// The texts are Markdown; their backquotes are removed here.
fn known_bugs(out: &mut impl Write, bugs: &[&KnownBug]) -> io::Result<()> {
    if bugs.is_empty() {
        return Ok(());
    }
    writeln!(out, "Known bugs of this kernel")?;
    bugs.iter().try_for_each(|bug| {
        line(out, bug.name, "")?;
        [bug.what, bug.remedy].iter().try_for_each(|text| line(out, "", &text.replace('`', "")))
    })
}

fn pods(out: &mut impl Write, plan: &PodsPlan) -> io::Result<()> {
    writeln!(out, "Sources of pod names")?;
    for source in SourceKind::ALL {
        let passed_over = plan.passed_over.iter().find(|(passed, _)| *passed == source);
        let said = passed_over.map_or("asked".to_owned(), |(_, reason)| format!("not asked: {reason}"));
        line(out, source.name(), &said)?;
    }
    Ok(())
}

fn sizes(out: &mut impl Write, plan: &Plan) -> io::Result<()> {
    writeln!(out, "Sizes of the maps")?;
    for row in &plan.sizes.reasons {
        writeln!(out, "  {:<14}{:>10}  {}", row.what, row.size, row.reason)?;
    }
    Ok(())
}

fn memory(out: &mut impl Write, plan: &Plan) -> io::Result<()> {
    writeln!(out, "Kernel memory of the maps")?;
    for map in &plan.maps {
        let (name, bytes, entries) = (map.map.to_lowercase(), map.bytes.div_ceil(1024), map.entries);
        writeln!(out, "  {name:<14}{bytes:>10} KiB  {entries} entries")?;
    }
    writeln!(out, "  {:<14}{:>10} KiB", "total", plan.map_bytes().div_ceil(1024))
}

/// The limits of task and socket storage. The storage of existing tasks and sockets is listed among the maps.
fn storage(out: &mut impl Write, limits: &Limits) -> io::Result<()> {
    const MIB: u64 = 1 << 20;
    writeln!(out, "Kernel memory kept with threads and sockets")?;
    line(out, "at most", &format!("{} MiB", limits.most_bytes / MIB))?;
    let limited = limits.groups.iter().filter_map(|group| Some((group, group.usage()?)));
    for (group, usage) in limited {
        let (used, limit) = (usage.used / MIB, usage.limit / MIB);
        let said =
            format!("{used} of {limit} MiB in use by the agent's cgroup {}", group.directory.display());
        line(out, "limited by", &said)?;
    }
    Ok(())
}

fn agent(out: &mut impl Write, agent: &Agent, socket: &Path) -> io::Result<()> {
    let socket = socket.display();
    match agent {
        Agent::None => writeln!(out, "No agent is running (on {socket})"),
        Agent::Silent(reason) => writeln!(out, "The agent on {socket} cannot be asked: {reason}"),
        Agent::Running { domains, pod_sources } => {
            writeln!(out, "Running agent (on {socket})")?;
            domains.iter().try_for_each(|domain| running(out, domain))?;
            pod_sources.iter().try_for_each(|source| answering(out, source))
        }
    }
}

fn running(out: &mut impl Write, domain: &DomainState) -> io::Result<()> {
    let state = if domain.up { format!("up, by {}", domain.mode) } else { "off".to_owned() };
    line(out, &domain.name, &state)?;
    domain.reason.lines().try_for_each(|reason| line(out, "", reason))
}

fn answering(out: &mut impl Write, source: &PodSourceSample) -> io::Result<()> {
    let said = if source.up { "answers".to_owned() } else { format!("does not answer: {}", source.reason) };
    line(out, &source.source, &said)
}
