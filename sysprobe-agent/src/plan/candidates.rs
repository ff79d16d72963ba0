//! The attach modes of a domain that the facts do not exclude, each with its globals.

use super::{Candidate, Globals, Reason};
use crate::config::Config;
use crate::host::{Facts, Layout};
use crate::probe::{ABSENT, Member, NO_SCTP, Need, Probe, Program, ProgramSet, UNSTEERED};

/// Loading the programs does not reveal this: only attaching them fails.
const NO_COUNTERS: &str = "this process may not attach kprobes: grant CAP_SYS_ADMIN, or set \
                           kernel.perf_event_paranoid to 2 or less; seccomp must allow perf_event_open";

/// The attach modes to try, and the reasons against the others. `way` holds the globals that every attach
/// mode starts with.
pub(super) fn of(
    probe: &Probe,
    facts: &Facts,
    config: &Config,
    way: &Globals,
) -> (Vec<Candidate>, Vec<Reason>) {
    let (mut candidates, mut passed_over) = (Vec::new(), Vec::new());
    for set in probe.sets.iter().filter(|set| config.attach.is_none_or(|forced| forced == set.mode)) {
        let mode = set.mode;
        match require(set, facts).and_then(|()| globals(set, facts)) {
            Ok(globals) => candidates.push(Candidate { mode, globals: [way.clone(), globals].concat() }),
            Err(reason) => passed_over.push(Reason { mode, reason }),
        }
    }
    (candidates, passed_over)
}

/// Fails with the first requirement that the kernel is known to lack, or to deny to this process. Unknown
/// ones show when the attach mode is tried.
fn require(set: &ProgramSet, facts: &Facts) -> Result<(), String> {
    let offers = &facts.offers;
    let lacks = |need: &&Need| match need {
        Need::Kprobes => offers.kprobes == Some(false),
        Need::Trampolines => offers.trampolines == Some(false),
        Need::TaskStorage => offers.task_storage == Some(false),
        Need::SocketStorage => offers.socket_storage == Some(false),
    };
    if let Some(need) = set.needs.iter().find(lacks) {
        return Err(format!("this kernel has no {}", need.means()));
    }
    if set.needs.contains(&Need::Kprobes) && !facts.privilege.counters {
        return Err(NO_COUNTERS.to_owned());
    }
    let Some(known) = &offers.targets else { return Ok(()) };
    let mut required = set.programs.iter().filter(|program| program.required);
    let is_absent = |program: &&Program| {
        program.hook.target().is_some() && !program.targets().any(|target| known.contains(&target))
    };
    match required.find(is_absent) {
        Some(program) => Err(format!("this kernel has no {}", names(program))),
        None => Ok(()),
    }
}

fn names(program: &Program) -> String {
    program.targets().map(|target| target.to_string()).collect::<Vec<_>>().join(" or ")
}

/// The values of the table's members and conditions on this host.
fn globals(set: &ProgramSet, facts: &Facts) -> Result<Globals, String> {
    let layout = facts.layout.as_ref().map_err(Clone::clone)?;
    let value = |member: &Member| match offset(layout, member.paths) {
        Err(_) if !member.required => Ok(ABSENT),
        found => found,
    };
    let members = set.members.iter().map(|member| Ok((member.global, value(member)?)));
    let conditions = [(UNSTEERED, facts.queues.steers_packets), (NO_SCTP, facts.has_sctp)];
    let is_asked = |global| set.programs.iter().any(|program| program.unless == Some(global));
    let asked = conditions.into_iter().filter(|(global, _)| is_asked(*global));
    members.chain(asked.map(|(global, is_met)| Ok((global, if is_met { ABSENT } else { 0 })))).collect()
}

/// The offset under the first name that this kernel has.
pub(super) fn offset(layout: &Layout, paths: &[&str]) -> Result<u32, String> {
    let found = paths.iter().find_map(|path| layout.get(path));
    found.ok_or_else(|| format!("this kernel has no {}", paths.join(" or ")))
}
