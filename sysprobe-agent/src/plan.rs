//! Turns facts and configuration into a plan: which domain is on, with which globals and map sizes, or off
//! and why. Pure: the same facts give the same plan, on any machine and without privileges.

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
use crate::probe::{AttachMode, CPU_CONTROLLER, CSS_SET_DEFAULT, CSS_SET_SUBSYS, PROBES, Probe};
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

/// The number of shards of reads and writes.
#[expect(clippy::cast_possible_truncation, reason = "a handful")]
const TRANSFER_SHARDS: u32 = sysprobe_common::vfs::SHARDS as u32;

/// What the agent will do on this host.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Plan {
    /// The cgroup hierarchy whose cgroup ids identify workloads. `None` if there is none.
    pub hierarchy: Option<Hierarchy>,
    /// How CPUs share the counters of each cgroup's CPU time and waits for a CPU.
    pub cpu_shards: CpuShards,
    /// How CPUs share the counters of each cgroup's reads and writes.
    pub transfer_shards: CpuShards,
    /// Number of possible CPUs, including those that are not online.
    pub cpus: u32,
    /// Number of CPUs that are online.
    pub online_cpus: u32,
    /// Maximum number of cgroups that the BPF programs can distinguish in each domain.
    pub slots: u32,
    /// Sizes of the BPF maps that do not have one entry per slot.
    pub sizes: Sizes,
    /// Maximum number of entries of the hash maps that track tasks or sockets where task or socket storage is
    /// not available.
    pub tasks: u32,
    /// Number of threads on the host now; 0 if unknown.
    pub threads: u32,
    /// Upper bound of the number of Internet sockets now; 0 if unknown.
    pub sockets: u32,
    /// Maximum rate of system calls, over all CPUs, if the domain `vfs` measures storage operations at system
    /// calls. Above this rate, the domain is paused.
    pub vfs_calls_per_second: u64,
    /// Sampling on the receive path: one of this many packets is followed to its reader. 0 adapts to the
    /// packet rate.
    pub rx_follow_one_in: u32,
    /// Limits of the kernel memory for task and socket storage.
    pub storage: storage::Limits,
    /// Whether packets are steered to other CPUs than those that receive them (RPS or RFS). If so, their
    /// arrival is recorded before they are steered.
    pub steers_packets: bool,
    /// Seconds for which a workload is still exported after it is gone.
    pub grace_seconds: u64,
    /// Whether histograms are exported per pod or per container.
    pub histograms: HistogramScope,
    /// Which metric families are exported, for which workloads, and how many series.
    pub metrics: MetricsConfig,
    /// Whether the agent keeps the kernel's BPF statistics on while it runs.
    pub program_statistics: bool,
    /// Directory with the compiled BPF objects. `None` for those built into the agent.
    pub objects: Option<PathBuf>,
    /// Plan of each domain: first those with BPF programs, then those that read files.
    pub domains: Vec<DomainPlan>,
    /// Planned BPF maps of each domain in the attach mode that the kernel accepted, or in the first one if
    /// the kernel was not asked.
    pub maps: Vec<MapMemory>,
    /// Which sources of pod names are asked, and how.
    pub pods: PodsPlan,
    /// The kernel's names of why it drops packets, by number.
    #[serde(skip)]
    pub drop_reasons: BTreeMap<u32, String>,
    /// Limitations of the plan, as sentences.
    pub warnings: Vec<String>,
}

/// Plan of one domain.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct DomainPlan {
    /// Name of the domain, such as `sched`.
    pub name: &'static str,
    /// Whether the domain is on, with the attach modes to try, or off, with the reason.
    pub decision: Decision,
    /// Attach modes that do not work on this host, and why.
    pub passed_over: Vec<Reason>,
}

/// Why an attach mode cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Reason {
    /// The attach mode.
    #[serde(rename = "tier")]
    pub mode: AttachMode,
    /// The reason, in words.
    pub reason: String,
}

/// Whether a domain is on or off.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// The domain is on: the attach modes in the order in which they are tried. Empty for a domain that reads
    /// files.
    On(Vec<Candidate>),
    /// The domain is off, for this reason.
    Off(String),
}

/// An attach mode that this host does not rule out. Whether the kernel accepts its programs shows when they
/// are loaded.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Candidate {
    /// The attach mode.
    #[serde(rename = "tier")]
    pub mode: AttachMode,
    /// Read-only globals of the BPF object, as pairs of name and value. Each value has 32 bits.
    pub globals: Globals,
}

pub type Globals = Vec<(&'static str, u32)>;

/// At 0.2 us per call, this is one percent of the CPUs' time.
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
            storage: storage::Limits::new(facts, config.storage_mebibytes),
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
        plan.maps = memory::of_maps(&plan, |domain| plan.first_mode(domain));
        plan
    }

    /// Adapts the maps to the attach mode that the kernel accepted for each domain, if any.
    #[must_use]
    pub fn finalized(mut self, taken: impl Fn(&str) -> Option<AttachMode>) -> Self {
        self.maps = memory::of_maps(&self, taken);
        self
    }

    #[must_use]
    pub fn decision(&self, domain: &str) -> Option<&Decision> {
        self.domains.iter().find(|plan| plan.name == domain).map(|plan| &plan.decision)
    }

    /// The attach mode of a domain that is tried first.
    fn first_mode(&self, domain: &str) -> Option<AttachMode> {
        match self.decision(domain)? {
            Decision::On(candidates) => candidates.first().map(|candidate| candidate.mode),
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
    let globals = match cgroup_globals(probe, facts, config) {
        Ok(globals) => globals,
        Err(reason) => return off(reason),
    };
    let (candidates, passed_over) = candidates::of(probe, facts, config, &globals);
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
    /// Joins reasons on one line; a reason that all attach modes share appears once.
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
        write!(formatter, "{}: {}", self.mode.name(), self.reason)
    }
}

/// Checks what every attach mode needs (privileges, BTF), and returns the globals that lead from a task to
/// its cgroup in the key hierarchy.
fn cgroup_globals(probe: &Probe, facts: &Facts, config: &Config) -> Result<Globals, String> {
    const POINTER: u32 = 8;
    if !config.domains.wants(probe.domain) {
        return Err(turned_off(probe.domain));
    }
    facts.privilege.require().map_err(|missing| missing.to_string())?;
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
            "this process is not in the host's PID namespace: tasks that started before it stay unknown (set \
             hostPID: true)"
                .into(),
        );
    }
    warnings
}

#[cfg(test)]
mod tests;
