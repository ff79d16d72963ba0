//! Facts and configuration to a plan: which domain is on, with which globals and map sizes, or off and why.
//! Pure: the same facts give the same plan, on any machine, without rights.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use sysprobe_common::cgroup::ROOT_ID;

use crate::cgroup::mounts::KeyHierarchy;
use crate::config::Config;
use crate::config::metrics::MetricsConfig;
use crate::host::{Cpus, Facts, Hierarchy};
use crate::pods::PodsPlan;
use crate::probe::{CPU_CONTROLLER, CSS_SET_DEFAULT, CSS_SET_SUBSYS, PROBES, Probe, Tier};
use crate::snapshot::HistogramScope;
use crate::storage;

mod candidates;
mod files;
#[cfg(test)]
pub(crate) mod fixture;
mod memory;
mod shards;
mod sizes;

use candidates::offset;
pub use memory::MapMemory;
pub use shards::{Adding, CPU_SHARDS, CpuShards, Shards};
pub use sizes::{SizeReason, Sizes};

/// As many as there are of reads and writes.
#[expect(clippy::cast_possible_truncation, reason = "a handful")]
const TRANSFER_SHARDS: u32 = sysprobe_common::vfs::SHARDS as u32;

/// What will be done.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Plan {
    /// That whose ids tell workloads apart; `None` if there is none.
    pub hierarchy: Option<Hierarchy>,
    /// Of what each cgroup waited for a CPU and ran.
    pub cpu_shards: CpuShards,
    /// Of what each cgroup read and wrote.
    pub transfer_shards: CpuShards,
    /// That there may be.
    pub cpus: u32,
    pub online_cpus: u32,
    /// How many workloads the kernel side can tell apart in each domain.
    pub slots: u32,
    /// The sizes of what has other numbers of entries.
    pub sizes: Sizes,
    /// How many tasks or sockets a map has room for where it has an entry for each.
    pub tasks: u32,
    /// How many there are now.
    pub threads: u32,
    /// How many Internet sockets there are at most; 0 where the kernel does not tell.
    pub sockets: u32,
    /// More system calls than these in a second are not looked at.
    pub vfs_calls_per_second: u64,
    /// Of so many packets one is followed; 0 for as many as cost little.
    pub rx_follow_one_in: u32,
    /// How much programs may keep with tasks and sockets.
    pub storage: storage::Limits,
    /// Whether packets are steered to other CPUs than those that receive them (RPS): then they are
    /// noted before that.
    pub steers_packets: bool,
    /// How long a workload that has gone is still exported.
    pub grace_seconds: u64,
    pub histograms: HistogramScope,
    /// What is exported, of whom, and how much at most.
    pub metrics: MetricsConfig,
    /// Whether the agent has the kernel measure its programs all the time.
    pub program_statistics: bool,
    /// Where the compiled programs are taken from, if not those that were built with the agent.
    pub objects: Option<PathBuf>,
    /// In the order of the probe table, then the domains that read files.
    pub domains: Vec<DomainPlan>,
    /// Of the first tier of each domain, until it is settled which the kernel takes.
    pub maps: Vec<MapMemory>,
    /// Who is asked for the names of pods.
    pub pods: PodsPlan,
    /// The kernel's names of why it drops packets, by number.
    #[serde(skip)]
    pub drop_reasons: BTreeMap<u32, String>,
    /// What works less well than it could, as sentences.
    pub warnings: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct DomainPlan {
    pub name: &'static str,
    pub decision: Decision,
    /// Tiers that the facts exclude.
    pub passed_over: Vec<Reason>,
}

/// Why a tier does not serve.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Reason {
    pub tier: Tier,
    pub reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// The tiers to try, in this order; none for a domain that reads files.
    On(Vec<Candidate>),
    Off(String),
}

/// A tier that the facts do not exclude. Whether the kernel takes it shows when it is tried.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Candidate {
    pub tier: Tier,
    /// The read-only globals of the tier's object, all 32 bits wide.
    pub globals: Globals,
}

pub type Globals = Vec<(&'static str, u32)>;

/// At 0.2 us for each, one percent of the CPUs' time.
const CALLS_PER_CPU: u64 = 50_000;

fn calls_per_second(configured: u64, cpus: &Cpus) -> u64 {
    if configured == 0 { CALLS_PER_CPU * cpus.online.len().max(1) as u64 } else { configured }
}

impl Plan {
    #[must_use]
    pub fn new(facts: &Facts, config: &Config) -> Self {
        let mut domains: Vec<_> = PROBES.iter().map(|probe| plan_probe(probe, facts, config)).collect();
        domains.extend(files::plan(facts, config));
        let mut plan = Self {
            hierarchy: facts.hierarchy.clone().ok(),
            cpu_shards: CpuShards::one(),
            transfer_shards: CpuShards::new(&facts.cpus, TRANSFER_SHARDS),
            cpus: facts.cpus.possible,
            slots: 0,
            sizes: Sizes::default(),
            tasks: config.tasks,
            threads: facts.threads,
            sockets: u32::try_from(facts.sockets.unwrap_or(0)).unwrap_or(u32::MAX),
            vfs_calls_per_second: calls_per_second(config.vfs_calls_per_second, &facts.cpus),
            rx_follow_one_in: config.rx_follow_one_in,
            online_cpus: u32::try_from(facts.cpus.online.len()).unwrap_or(u32::MAX),
            storage: storage::Limits::new(
                facts.scale.memory_bytes,
                config.storage_mebibytes,
                facts.memory_groups.clone(),
            ),
            steers_packets: facts.queues.steers_packets,
            grace_seconds: config.grace_seconds,
            histograms: config.histograms,
            metrics: config.metrics.clone(),
            program_statistics: config.program_statistics,
            objects: config.objects.clone(),
            domains,
            maps: Vec::new(),
            pods: PodsPlan::new(&facts.pods, &config.pods, Duration::from_secs(config.grace_seconds)),
            drop_reasons: facts.drop_reasons.clone(),
            warnings: warnings(facts),
        };
        sizes::choose(&mut plan, facts, config.slots);
        plan.maps = memory::of_maps(&plan, |domain| plan.first_tier(domain));
        plan
    }

    /// Takes into account which tier of each domain the kernel has taken, or none: the maps depend on it.
    #[must_use]
    pub fn settled(mut self, taken: impl Fn(&str) -> Option<Tier>) -> Self {
        self.maps = memory::of_maps(&self, taken);
        self
    }

    #[must_use]
    pub fn decision(&self, domain: &str) -> Option<&Decision> {
        self.domains.iter().find(|plan| plan.name == domain).map(|plan| &plan.decision)
    }

    /// The tier of a domain that is tried first.
    fn first_tier(&self, domain: &str) -> Option<Tier> {
        match self.decision(domain)? {
            Decision::On(candidates) => candidates.first().map(|candidate| candidate.tier),
            Decision::Off(_) => None,
        }
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

fn plan_probe(probe: &Probe, facts: &Facts, config: &Config) -> DomainPlan {
    let off =
        |reason| DomainPlan { name: probe.domain, decision: Decision::Off(reason), passed_over: Vec::new() };
    let way = match way_to_cgroup(probe, facts, config) {
        Ok(way) => way,
        Err(reason) => return off(reason),
    };
    let (candidates, passed_over) = candidates::of(probe, facts, config, &way);
    if candidates.is_empty() {
        return off(match config.attach {
            Some(forced) if passed_over.is_empty() => {
                format!("this domain has no attach mode {}", forced.name())
            }
            _ => Reason::join(&passed_over),
        });
    }
    DomainPlan { name: probe.domain, decision: Decision::On(candidates), passed_over }
}

impl Reason {
    /// On one line; a reason that all tiers share is said once.
    #[must_use]
    pub fn join(reasons: &[Self]) -> String {
        match reasons {
            [first, rest @ ..] if rest.iter().all(|other| other.reason == first.reason) => {
                first.reason.clone()
            }
            _ => reasons.iter().map(Self::to_string).collect::<Vec<_>>().join("; "),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.tier.name(), self.reason)
    }
}

/// What every tier needs: rights, BTF, and the globals that lead from a task to its cgroup in the key
/// hierarchy.
fn way_to_cgroup(probe: &Probe, facts: &Facts, config: &Config) -> Result<Globals, String> {
    const POINTER: u32 = 8;
    if !config.domains.wants(probe.domain) {
        return Err(turned_off(probe.domain));
    }
    let missing = facts.privilege.missing();
    if !missing.is_empty() {
        return Err(format!("the process lacks {}: run it as root or grant it", missing.join(" and ")));
    }
    let layout = facts.layout.as_ref().map_err(Clone::clone)?;
    let hierarchy = facts.hierarchy.as_ref().map_err(Clone::clone)?;
    let (via_controller, link) = match hierarchy.key {
        KeyHierarchy::V2 { .. } => (0, offset(layout, &[CSS_SET_DEFAULT])?),
        KeyHierarchy::V1 { .. } => {
            (1, offset(layout, &[CSS_SET_SUBSYS])? + POINTER * offset(layout, &[CPU_CONTROLLER])?)
        }
    };
    Ok(vec![("OFF_CSS_SET_LINK", link), ("CFG_VIA_CONTROLLER", via_controller)])
}

fn turned_off(domain: &str) -> String {
    format!("turned off by the configuration (domains.{domain})")
}

fn warnings(facts: &Facts) -> Vec<String> {
    let mut warnings: Vec<String> = facts.privilege.warning().into_iter().collect();
    if facts.hierarchy.as_ref().is_ok_and(|hierarchy| hierarchy.root_id != ROOT_ID) {
        warnings.push(
            "the cgroup file system shows only a part of the hierarchy (a cgroup namespace): \
             mount the host's cgroup file system and name its directory with --cgroup-root"
                .into(),
        );
    }
    if !facts.sees_all_processes {
        warnings.push(
            "the process is not in the host's PID namespace (hostPID): tasks that are older than the agent \
             stay unknown"
                .into(),
        );
    }
    warnings
}

#[cfg(test)]
mod tests;
