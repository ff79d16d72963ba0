//! Facts and configuration to a plan: which domain is on, with which globals and map sizes, or off and why. Pure: the
//! same facts give the same plan, on any machine, without rights.

use serde::Serialize;
use sysprobe_common::cgroup::ROOT_ID;

use crate::cgroup::mounts::KeyHierarchy;
use crate::config::Config;
use crate::host::{Facts, Hierarchy, Layout};
use crate::probe::{CPU_CONTROLLER, CSS_SET_DEFAULT, CSS_SET_SUBSYS, PROBES, Probe};

mod memory;
mod shards;

pub use memory::MapMemory;
pub use shards::Shards;

/// What will be done.
#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    pub hierarchy: Option<Hierarchy>,
    pub shards: Shards,
    pub slots: u32,
    pub grace_seconds: u64,
    pub program_statistics: bool,
    /// In the order of the probe table, then the domains that read files.
    pub domains: Vec<DomainPlan>,
    pub maps: Vec<MapMemory>,
    /// What works less well than it could, as sentences.
    pub warnings: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DomainPlan {
    pub name: &'static str,
    pub decision: Decision,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// The globals of the domain's object, all 32 bits wide; none for a domain that reads files.
    On(Vec<(&'static str, u32)>),
    Off(String),
}

impl Plan {
    #[must_use]
    pub fn new(facts: &Facts, config: &Config) -> Self {
        let shards = Shards::for_cpus(facts.cpus.possible);
        let mut domains: Vec<_> = PROBES
            .iter()
            .map(|probe| DomainPlan { name: probe.domain, decision: decide(probe, facts, config, shards) })
            .collect();
        domains.push(DomainPlan { name: "cpu", decision: decide_cpu(facts, config) });
        let maps = memory::of_maps(&domains, config.slots, shards, facts.cpus.possible);
        Self {
            hierarchy: facts.hierarchy.clone().ok(),
            shards,
            slots: config.slots,
            grace_seconds: config.grace_seconds,
            program_statistics: config.program_statistics,
            domains,
            maps,
            warnings: warnings(facts),
        }
    }

    #[must_use]
    pub fn decision(&self, domain: &str) -> Option<&Decision> {
        self.domains.iter().find(|plan| plan.name == domain).map(|plan| &plan.decision)
    }

    #[must_use]
    pub fn map_bytes(&self) -> u64 {
        self.maps.iter().map(|map| map.bytes).sum()
    }
}

impl DomainPlan {
    #[must_use]
    pub const fn is_on(&self) -> bool {
        matches!(self.decision, Decision::On(_))
    }
}

fn decide(probe: &Probe, facts: &Facts, config: &Config, shards: Shards) -> Decision {
    match globals(probe, facts, config, shards) {
        Ok(globals) => Decision::On(globals),
        Err(reason) => Decision::Off(reason),
    }
}

fn globals(
    probe: &Probe,
    facts: &Facts,
    config: &Config,
    shards: Shards,
) -> Result<Vec<(&'static str, u32)>, String> {
    if probe.domain == "sched" && !config.domains.sched {
        return Err("turned off by the configuration (domains.sched)".into());
    }
    let missing = facts.privilege.missing();
    if !missing.is_empty() {
        return Err(format!("the process lacks {}: run it as root or grant it", missing.join(" and ")));
    }
    let layout = facts.layout.as_ref().map_err(Clone::clone)?;
    let hierarchy = facts.hierarchy.as_ref().map_err(Clone::clone)?;
    let mut globals = Vec::new();
    for member in probe.members {
        globals.push((member.global, (offset(layout, member.path)?)));
    }
    match probe.domain {
        "cgroup" => globals.push(("CFG_HIERARCHY", (hierarchy.id))),
        _ => globals.extend(sched_settings(layout, hierarchy, shards)?),
    }
    Ok(globals)
}

fn sched_settings(
    layout: &Layout,
    hierarchy: &Hierarchy,
    shards: Shards,
) -> Result<Vec<(&'static str, u32)>, String> {
    const POINTER: u32 = 8;
    let (via_controller, link) = match hierarchy.key {
        KeyHierarchy::V2 { .. } => (0, offset(layout, CSS_SET_DEFAULT)?),
        KeyHierarchy::V1 { .. } => {
            (1, offset(layout, CSS_SET_SUBSYS)? + POINTER * offset(layout, CPU_CONTROLLER)?)
        }
    };
    Ok(vec![
        ("OFF_CSS_SET_LINK", (link)),
        ("CFG_VIA_CONTROLLER", (via_controller)),
        ("CFG_SHARD_BITS", (shards.bits)),
        ("CFG_CPU_SHIFT", (shards.cpu_shift)),
    ])
}

fn offset(layout: &Layout, path: &str) -> Result<u32, String> {
    layout.get(path).ok_or_else(|| format!("this kernel has no {path}"))
}

fn decide_cpu(facts: &Facts, config: &Config) -> Decision {
    if !config.domains.cpu {
        return Decision::Off("turned off by the configuration (domains.cpu)".into());
    }
    match &facts.hierarchy {
        Ok(_) => Decision::On(Vec::new()),
        Err(reason) => Decision::Off(reason.clone()),
    }
}

fn warnings(facts: &Facts) -> Vec<String> {
    let mut warnings = Vec::new();
    if facts.hierarchy.as_ref().is_ok_and(|hierarchy| hierarchy.root_id != ROOT_ID) {
        warnings.push(
            "the cgroup file system shows a part of the hierarchy only (a cgroup namespace): \
             mount the host's and name its directory with --cgroup-root"
                .into(),
        );
    }
    if !facts.sees_all_processes {
        warnings.push(
            "the process is not in the host's PID namespace (hostPID): tasks that are older than the agent stay unknown"
                .into(),
        );
    }
    warnings
}

#[cfg(test)]
mod tests;
