//! The running agent behind its doors: the domains that could be started, the cgroups, the workloads. One owner, one
//! lock around it; every method is short and none waits for anything but the kernel.

mod identity;

use std::collections::{HashMap, HashSet};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use tracing::{error, info, warn};

use crate::bpf::{self, LoadError, Loaded, Loader};
use crate::cgroup::events::Events;
use crate::cgroup::tree::Cgroup;
use crate::cpu::CpuFiles;
use crate::host::{self, Facts};
use crate::plan::{Candidate, Decision, Plan};
use crate::probe::{self, TierSet};
use crate::sched::{Owner, Sched};
use crate::snapshot::{
    AgentSample, DomainState, LostUpdates, MapSample, ProgramSample, Snapshot, VERSION, Workload,
    WorkloadKind,
};
use crate::workload::{self, CpuSeen, Registry};
use identity::Identity;

/// What must stay open and be asked.
pub struct Engine {
    domains: Vec<DomainState>,
    identity: Identity,
    sched: Option<Sched>,
    cpu: Option<CpuFiles>,
    cpu_seen: HashMap<u64, CpuSeen>,
    registry: Registry,
    plan: Plan,
    /// While it is open, the kernel measures its programs.
    _statistics: Option<OwnedFd>,
}

impl Engine {
    /// Carries out the plan. A domain that the kernel refuses is off with its reason; only an agent that could do
    /// nothing at all is an error.
    pub fn start(facts: &Facts, plan: Plan) -> anyhow::Result<Self> {
        let Some(hierarchy) = plan.hierarchy.clone() else {
            anyhow::bail!("{}", facts.hierarchy.as_ref().err().map_or("no cgroup hierarchy", String::as_str));
        };
        let mut domains = Vec::new();
        let loader = Loader::new(&facts.btf_path);
        let events = start_domain("cgroup", &plan, &mut domains, |set, candidate| {
            Events::start(&loader, set, candidate)
        });
        let sched = start_domain("sched", &plan, &mut domains, |set, candidate| {
            Sched::start(&loader, set, candidate, &plan)
        });
        let cpu = match plan.decision("cpu") {
            Some(Decision::On(_)) => Some(CpuFiles::new(hierarchy.key.clone())),
            _ => None,
        };
        domains.push(file_domain("cpu", plan.decision("cpu")));
        // The walk comes after the events are on, so that no birth falls between the two.
        let identity = Identity::start(hierarchy.key.root().to_owned(), events)?;
        info!(cgroups = identity.tree().alive().count(), "Agent started.");
        let registry = Registry::default();
        let measured = statistics(&plan);
        Ok(Self {
            domains,
            identity,
            sched,
            cpu,
            cpu_seen: HashMap::new(),
            registry,
            plan,
            _statistics: measured,
        })
    }

    /// A descriptor that is readable while cgroup events wait; `None` without the events' domain.
    pub fn wake_up(&self) -> std::io::Result<Option<OwnedFd>> {
        self.identity.wake_up()
    }

    /// Takes in what happened to cgroups, and takes leave of those that have gone.
    pub fn tick(&mut self) {
        let now = Instant::now();
        self.identity.update(now);
        for id in self.identity.tree().departed(now) {
            self.bury(id);
        }
    }

    /// Books a dead cgroup's last numbers and frees its slot.
    fn bury(&mut self, id: u64) {
        if let (Some(sched), Some(cgroup)) = (&mut self.sched, self.identity.tree().get(id)) {
            let (labels, kind) = labels_of(Some(cgroup));
            let registry = &mut self.registry;
            if let Err(error) = sched.release(id, |gathered| registry.add_sched(&labels, kind, gathered)) {
                error!(%error, "The slot of a dead cgroup is lost.");
            }
        }
        self.cpu_seen.remove(&id);
        self.identity.forget(id);
    }

    /// Everything as of now.
    pub fn collect(&mut self) -> Snapshot {
        let start = Instant::now();
        self.tick();
        let monotonic_ns = self.collect_sched();
        self.collect_cpu();
        self.expire(start);
        let workloads = self.registry.samples();
        let mut agent = self.describe_agent();
        agent.collect_ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Snapshot { version: VERSION, monotonic_ns, domains: self.domains.clone(), workloads, agent }
    }

    /// Says at what moment everything was booked.
    fn collect_sched(&mut self) -> u64 {
        let Some(sched) = &mut self.sched else { return monotonic_ns() };
        if let Err(error) = sched.flush() {
            warn!(%error, "What is running now could not be booked.");
        }
        let flushed = monotonic_ns();
        if let Err(error) = sched.list_slots() {
            error!(%error, "The map of slots could not be read.");
        }
        // A cgroup's birth is told before its first task can get a slot: after this, every slot has a name.
        self.identity.update(Instant::now());
        let (tree, registry) = (self.identity.tree(), &mut self.registry);
        sched.read(|owner, gathered| match owner {
            Owner::Kernel => registry.add_sched(&workload::own("kernel"), WorkloadKind::Kernel, gathered),
            Owner::Unknown => registry.add_sched(&workload::own("unknown"), WorkloadKind::Unknown, gathered),
            Owner::Cgroup(id) => {
                let (labels, kind) = labels_of(tree.get(id));
                registry.add_sched(&labels, kind, gathered);
            }
        });
        flushed
    }

    fn collect_cpu(&mut self) {
        let Some(files) = &mut self.cpu else { return };
        let parents = self.identity.tree().parents();
        for (id, cgroup) in self.identity.tree().alive() {
            if !may_have_cpu_series(cgroup) {
                continue;
            }
            let sample = match files.read(&cgroup.path) {
                Ok(Some(sample)) => sample,
                Ok(None) => continue,
                Err(error) => {
                    warn!(cgroup = %cgroup.path, error = format!("{error:#}"), "CPU files could not be read.");
                    continue;
                }
            };
            // An inner node repeats its children; it is of interest only where it sets a limit of its own.
            let inner = !is_workload(cgroup) && parents.contains(cgroup.path.as_str());
            if inner && sample.quota_cores.is_none() {
                continue;
            }
            let (labels, kind) = labels_of(Some(cgroup));
            self.registry.add_cpu(&labels, kind, &sample, self.cpu_seen.entry(id).or_default());
        }
    }

    fn expire(&mut self, now: Instant) {
        let alive: HashSet<Workload> =
            self.identity.tree().alive().map(|(_, cgroup)| workload::of_cgroup(&cgroup.name)).collect();
        let own = [workload::own("kernel"), workload::own("unknown")];
        let grace = Duration::from_secs(self.plan.grace_seconds);
        self.registry.expire(|workload| alive.contains(workload) || own.contains(workload), now, grace);
    }

    fn describe_agent(&mut self) -> AgentSample {
        let (cgroups_born, cgroups_died) = self.identity.tree().counts();
        let mut lost_updates: Vec<LostUpdates> = self.sched.iter().flat_map(Sched::losses).collect();
        lost_updates.push(LostUpdates {
            domain: "cgroup".into(),
            reason: "ring_buffer_full".into(),
            count: self.identity.events_lost(),
        });
        let loaded = [self.identity.loaded(), self.sched.as_ref().map(Sched::loaded)];
        let programs = loaded.into_iter().flatten().flat_map(program_samples).collect();
        AgentSample {
            lost_updates,
            maps: self.map_samples(),
            programs,
            cgroups_born,
            cgroups_died,
            collect_ns: 0,
        }
    }

    fn map_samples(&mut self) -> Vec<MapSample> {
        let slots = self.sched.as_ref().map(Sched::slots_in_use);
        let on = |name: &str| self.domains.iter().any(|domain| domain.name == name && domain.up);
        let maps = self.plan.maps.iter().filter(|map| on(map.domain));
        let sample = |map: &crate::plan::MapMemory| MapSample {
            map: map.map.to_lowercase(),
            entries: if map.map == "SCHED_SLOTS" { slots } else { None },
            capacity: u64::from(map.entries),
            bytes: map.bytes,
        };
        maps.map(sample).collect()
    }
}

/// Tries the plan's candidates until the kernel takes one. What was refused before is the reason, also of a domain
/// that is up.
fn start_domain<T>(
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

fn file_domain(name: &str, decision: Option<&Decision>) -> DomainState {
    match decision {
        Some(Decision::Off(reason)) => off(name, "file", reason.clone()),
        _ => up(name, "file", String::new()),
    }
}

fn statistics(plan: &Plan) -> Option<OwnedFd> {
    let wanted = plan.program_statistics.then(bpf::measure_programs)?;
    wanted.inspect_err(|error| warn!(%error, "The kernel does not measure its programs.")).ok()
}

fn labels_of(cgroup: Option<&Cgroup>) -> (Workload, WorkloadKind) {
    match cgroup {
        Some(cgroup) => (workload::of_cgroup(&cgroup.name), cgroup.name.kind),
        // Its birth was not heard and no walk has found it: charged to nobody, and visible.
        None => (workload::own("unknown"), WorkloadKind::Unknown),
    }
}

/// The root's files speak of the whole machine, and those of a sub-cgroup are in its workload's own.
fn may_have_cpu_series(cgroup: &Cgroup) -> bool {
    cgroup.path != "/" && cgroup.name.is_top
}

/// Slices only hold others together.
fn is_workload(cgroup: &Cgroup) -> bool {
    let suffix = cgroup.name.name.rsplit_once('.').map_or("", |(_, suffix)| suffix);
    match cgroup.name.kind {
        WorkloadKind::Container => true,
        WorkloadKind::Unit => suffix != "slice",
        _ => false,
    }
}

fn program_samples(loaded: &Loaded) -> impl Iterator<Item = ProgramSample> {
    loaded.programs().map(|program| ProgramSample {
        program: program.name.into(),
        runs: program.runs,
        run_ns: program.run_ns,
        missed: program.missed,
    })
}

fn monotonic_ns() -> u64 {
    u64::try_from(host::monotonic().as_nanos()).unwrap_or(u64::MAX)
}
