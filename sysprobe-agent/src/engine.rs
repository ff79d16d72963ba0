//! The running agent without its interfaces: the started domains, the cgroups and the workloads. One thread
//! owns it; every method is short and waits for nothing but the kernel.

mod attribution;
mod bpf_domains;
mod cgroup_tracker;
mod charging;
mod files;
mod report;
mod rotation;
mod scans;
mod shedding;
mod slow;
mod start;
mod statistics;
mod steering;
mod workload;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tracing::info;

use crate::bpf::Loader;
use crate::domain::cgroup::Events;
use crate::host::{self, Facts, Population};
use crate::plan::Plan;
use crate::pods::Vitality;
use crate::snapshot::load_average::Pace;
use crate::snapshot::{DomainState, Query, READABLE_FROM, Snapshot, VERSION, Workload, WorkloadSample};
use crate::storage;
use attribution::Attribution;
use bpf_domains::BpfDomains;
use cgroup_tracker::CgroupTracker;
use charging::Reaping;
use files::Files;
use shedding::Shedding;
use start::{mode_in_use, require_exports, resolve_new_cgroups, resolving_meanwhile, start_domain};
use statistics::Statistics;
use steering::Steering;
use workload::{Admission, Owner, Registry};

/// Minimum interval between searches for deleted workloads, each of which visits all cgroups.
const EXPIRE_INTERVAL_MIN: Duration = Duration::from_secs(1);
/// Just below the cgroup watcher's tick of one second; events can tick the engine more often.
const GRANT_EVERY: Duration = Duration::from_millis(900);

/// Everything that has to stay open while the agent runs.
pub struct Engine {
    domains: Vec<DomainState>,
    tracker: CgroupTracker,
    attribution: Attribution,
    bpf_domains: BpfDomains,
    files: Files,
    registry: Registry,
    plan: Plan,
    /// When deleted workloads were last searched for.
    expired: Instant,
    /// Whether a cgroup has been deleted since.
    has_departed: bool,
    /// The number of waits of unknown tasks at the last task scan, and the time of that scan.
    seeded: (u64, Instant),
    /// When storage was last granted.
    granted: Instant,
    /// The number of tasks and sockets at that time.
    population: Population,
    /// Paces the samples of the load averages.
    pace: Pace,
    statistics: Statistics,
    steering: Steering,
    shedding: Shedding,
    started_ns: u64,
    started_unix_ms: u64,
}

impl Engine {
    /// Starts the domains of the plan. A domain that the kernel rejects is off with its reason; startup fails
    /// only if no domain exports anything. The sources of pod names run on `handle`.
    pub fn start(facts: &Facts, plan: Plan, handle: &Handle) -> anyhow::Result<Self> {
        let Some(hierarchy) = plan.hierarchy.clone() else {
            anyhow::bail!("{}", facts.hierarchy.as_ref().err().map_or("no cgroup hierarchy", String::as_str));
        };
        let mut domains = Vec::new();
        let loader = Loader::new(&facts.btf_path).objects_from(plan.objects.as_deref());
        let events = start_domain("cgroup", &plan, &mut domains, |set, candidate| {
            Events::start(&loader, set, candidate)
        });
        // Walks the tree after the events are attached, so that no new cgroup is missed between the two.
        let mut tracker = CgroupTracker::start(hierarchy.key.root().to_owned(), events)?;
        let mut attribution = Attribution::start(&plan.pods, handle);
        let bpf_domains = resolving_meanwhile(&mut tracker, &mut attribution, || {
            BpfDomains::start(&loader, &plan, &mut domains)
        });
        let mut files = Files::start(&plan, &hierarchy.key, &mut domains);
        require_exports(&domains)?;
        let plan = plan.finalized(|domain| mode_in_use(&domains, domain));
        files.take_baseline(&tracker);
        info!(cgroups = tracker.tree().alive().count(), "Agent started.");
        let registry = Registry::new(Admission::new(&plan.metrics));
        let statistics = Statistics::new(plan.program_statistics);
        let steering = Steering::new(plan.steers_packets);
        Ok(Self {
            seeded: (0, Instant::now()),
            expired: Instant::now(),
            granted: Instant::now(),
            population: Population::read(),
            has_departed: false,
            pace: Pace::default(),
            domains,
            tracker,
            attribution,
            bpf_domains,
            files,
            registry,
            plan,
            statistics,
            steering,
            shedding: Shedding::default(),
            started_ns: host::monotonic_ns(),
            started_unix_ms: host::unix_ms(Instant::now()),
        })
    }

    /// A file descriptor that is readable while cgroup events are pending; `None` if the `cgroup` domain is
    /// off.
    pub fn wake_up(&self) -> std::io::Result<Option<OwnedFd>> {
        self.tracker.wake_up()
    }

    /// Whether only a restart of the agent can bring back the source of pod names.
    #[must_use]
    pub fn vitality(&self) -> Vitality {
        self.attribution.pods().vitality()
    }

    /// Processes cgroup events and reaps deleted cgroups.
    pub fn tick(&mut self) {
        let now = Instant::now();
        resolve_new_cgroups(&mut self.tracker, &mut self.attribution, now);
        self.reap_cgroups(now);
        let registry = &mut self.registry;
        self.attribution.place_orphans(now, |owner, gathered| registry.add(owner, gathered));
        self.bpf_domains.remove_stale(now, host::monotonic_ns());
        self.steering.update(&mut self.domains, now);
        let most_calls = self.plan.vfs_calls_per_second;
        self.shedding.update(&mut self.bpf_domains, most_calls, &mut self.domains, now);
        if let Some(rxpath) = self.bpf_domains.rxpath() {
            rxpath.update(now);
        }
        self.statistics.update(now);
        self.renew_storage(now);
    }

    /// Grants the programs as much task and socket storage as there is room for now.
    fn renew_storage(&mut self, now: Instant) {
        if now.duration_since(self.granted) >= GRANT_EVERY {
            self.granted = now;
            self.population = Population::read();
            storage::renew(&mut self.bpf_domains.stores(), &self.plan.storage, &self.population);
        }
    }

    /// Reaps deleted cgroups. The grace period of their workloads starts here, with or without scrapes.
    fn reap_cgroups(&mut self, now: Instant) {
        let departed = self.tracker.tree().departed(now);
        if !departed.is_empty() {
            self.bpf_domains.slot_tables().for_each(charging::list_before_reaping);
        }
        for id in departed {
            self.reap(id, now);
            self.has_departed = true;
        }
        if self.has_departed && now.duration_since(self.expired) >= EXPIRE_INTERVAL_MIN {
            self.expire(now);
        }
    }

    fn reap(&mut self, id: u64, now: Instant) {
        if let Some(cgroup) = self.tracker.tree().get(id) {
            let (attribution, registry) = (&mut self.attribution, &mut self.registry);
            let mut reaping = Reaping { id, cgroup, attribution, registry, now };
            self.bpf_domains.slot_tables().for_each(|slots| charging::reap(slots, &mut reaping));
            self.files.reap(&mut reaping);
            self.attribution.retire(id, &cgroup.name, now);
        }
        self.files.forget(id);
        self.tracker.forget(id);
    }

    /// All current totals, and what the query asks for in addition.
    pub fn answer(&mut self, query: Query) -> Snapshot {
        let lease = query.lease();
        if query.follow
            && let Some(rxpath) = self.bpf_domains.rxpath()
        {
            rxpath.follow_all(Instant::now() + lease);
        }
        if query.measure {
            self.statistics.ask(lease, Instant::now());
        }
        let mut snapshot = self.collect();
        if !query.labels {
            snapshot.forget_labels();
        }
        snapshot.node = query.node.then(host::node::read);
        snapshot.slow = query.slow_ns.and_then(|from_ns| self.slow(from_ns, lease));
        snapshot
    }

    /// All current totals.
    pub fn collect(&mut self) -> Snapshot {
        let start = Instant::now();
        self.tick();
        self.registry.admit_waiting();
        let monotonic_ns = self.collect_slots();
        self.files.collect(&self.tracker, &mut self.attribution, &mut self.registry);
        self.expire(start);
        self.registry.note_collection(start);
        let (workloads, other) = (self.registry.samples(), self.registry.other());
        let drop_reasons = self.named_reasons(workloads.iter().chain(&other));
        let mut agent = self.describe_agent();
        agent.collect_ns = host::nanoseconds(start.elapsed());
        Snapshot {
            version: VERSION,
            readable_from: READABLE_FROM,
            monotonic_ns,
            domains: self.domains.clone(),
            workloads,
            other,
            pods: self.registry.pods(),
            histograms: self.plan.histograms,
            drop_reasons,
            slow: None,
            node: None,
            agent,
        }
    }

    /// The names of the drop reasons that occur in these samples.
    fn named_reasons<'a>(
        &self,
        workloads: impl Iterator<Item = &'a WorkloadSample>,
    ) -> BTreeMap<u32, String> {
        let drops = workloads.filter_map(|row| row.net.as_ref()).flat_map(|net| net.drops.keys());
        let numbers: BTreeSet<u32> = drops.copied().collect();
        let name = |number: u32| Some((number, self.plan.drop_reasons.get(&number)?.clone()));
        numbers.into_iter().filter_map(name).collect()
    }

    /// Returns the timestamp up to which all run intervals are accounted for.
    fn collect_slots(&mut self) -> u64 {
        self.bpf_domains.flush();
        let flushed = host::monotonic_ns();
        let mut owners = Vec::new();
        for slots in self.bpf_domains.slot_tables() {
            charging::list(slots);
            owners.extend(slots.cgroups());
        }
        charging::resolve_all(&owners, &mut self.tracker, &mut self.attribution);
        let (tracker, attribution, registry) = (&self.tracker, &self.attribution, &mut self.registry);
        for slots in self.bpf_domains.slot_tables() {
            charging::collect(slots, tracker, attribution, registry);
        }
        charging::count_sockets(self.bpf_domains.sockets(), tracker, attribution, registry);
        if let Some(interference) = self.bpf_domains.interference() {
            charging::charge_interference(interference, tracker, attribution, registry);
        }
        flushed
    }

    fn expire(&mut self, now: Instant) {
        (self.expired, self.has_departed) = (now, false);
        let grace = Duration::from_secs(self.plan.grace_seconds);
        self.attribution.forget_late(now, grace);
        let owners = self.tracker.tree().alive().filter_map(|(id, _)| self.attribution.owner(id));
        let own = [Owner::kernel(), Owner::unknown()];
        let alive: HashSet<&Workload> = owners.chain(&own).map(|owner| &owner.workload).collect();
        self.registry.expire(|workload| alive.contains(workload), now, grace);
    }
}
