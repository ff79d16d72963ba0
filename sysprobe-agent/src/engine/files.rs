//! The domains that read the files of cgroups, as far as the plan wants them: from every cgroup that has series to its workload.

use std::collections::HashMap;
use std::time::Instant;

use anyhow::Result;
use tracing::warn;

use super::attribution::Attribution;
use super::identity::Identity;
use super::start::file_domain;
use crate::cgroup::files::Place;
use crate::cgroup::mounts::KeyHierarchy;
use crate::cgroup::tree::Cgroup;
use crate::cpu::CpuFiles;
use crate::memory::MemoryFiles;
use crate::plan::{Decision, Plan};
use crate::pressure::PressureFiles;
use crate::snapshot::{CpuSample, DomainState, LostUpdates, MemorySample, PressureSample, WorkloadKind};
use crate::workload::{Reading, Registry};

pub(super) struct Files {
    cpu: Option<Domain<CpuFiles>>,
    memory: Option<Domain<MemoryFiles>>,
    pressure: Option<Domain<PressureFiles>>,
}

/// What reads the files of one domain.
trait Read {
    const DOMAIN: &'static str;
    type Sample: Reading;

    /// `None` of a cgroup that has gone, or of which nothing is to be said.
    fn read(&mut self, cgroup: &str, place: Place) -> Result<Option<Self::Sample>>;
}

/// A domain, whatever its files say.
trait ReadDomain {
    /// Reads the files of these cgroups, and adds what is new to whoever bears it.
    fn collect(
        &mut self,
        cgroups: &[(u64, &Cgroup, Place)],
        attribution: &mut Attribution,
        registry: &mut Registry,
    );
    fn forget(&mut self, id: u64);
    fn losses(&self) -> LostUpdates;
}

struct Domain<R: Read> {
    files: R,
    /// By cgroup.
    seen: HashMap<u64, <R::Sample as Reading>::Seen>,
    unreadable: u64,
    /// How many could not be read when that was last said.
    said: u64,
}

impl Files {
    pub(super) fn start(plan: &Plan, key: &KeyHierarchy, domains: &mut Vec<DomainState>) -> Self {
        Self {
            cpu: Domain::start(plan, domains, || Some(CpuFiles::new(key.clone()))),
            memory: Domain::start(plan, domains, || MemoryFiles::new(key)),
            pressure: Domain::start(plan, domains, || PressureFiles::new(key)),
        }
    }

    fn domains(&mut self) -> impl Iterator<Item = &mut dyn ReadDomain> {
        let domains: [Option<&mut dyn ReadDomain>; 3] = [
            self.cpu.as_mut().map(|cpu| cpu as _),
            self.memory.as_mut().map(|memory| memory as _),
            self.pressure.as_mut().map(|pressure| pressure as _),
        ];
        domains.into_iter().flatten()
    }

    pub(super) fn collect(
        &mut self,
        identity: &Identity,
        attribution: &mut Attribution,
        registry: &mut Registry,
    ) {
        let cgroups = with_series(identity);
        registry.forget_memory_levels();
        for domain in self.domains() {
            domain.collect(&cgroups, attribution, registry);
        }
    }

    /// A cgroup has gone.
    pub(super) fn forget(&mut self, id: u64) {
        self.domains().for_each(|domain| domain.forget(id));
    }

    pub(super) fn losses(&mut self) -> impl Iterator<Item = LostUpdates> {
        self.domains().map(|domain| domain.losses())
    }
}

impl<R: Read> Domain<R> {
    /// `None` if the plan does not want it.
    fn start(plan: &Plan, domains: &mut Vec<DomainState>, files: impl FnOnce() -> Option<R>) -> Option<Self> {
        let decision = plan.decision(R::DOMAIN);
        domains.push(file_domain(R::DOMAIN, decision));
        let files = matches!(decision, Some(Decision::On(_))).then(files).flatten()?;
        Some(Self { files, seen: HashMap::new(), unreadable: 0, said: 0 })
    }
}

impl<R: Read> ReadDomain for Domain<R> {
    fn collect(
        &mut self,
        cgroups: &[(u64, &Cgroup, Place)],
        attribution: &mut Attribution,
        registry: &mut Registry,
    ) {
        let (now, mut unreadable, mut first_error) = (Instant::now(), 0, None);
        for (id, cgroup, place) in cgroups {
            let sample = match self.files.read(&cgroup.path, *place) {
                Ok(Some(sample)) => sample,
                Ok(None) => continue,
                Err(error) => {
                    unreadable += 1;
                    first_error.get_or_insert(error);
                    continue;
                }
            };
            let Some(bearer) = attribution.settle(*id, &cgroup.name, now) else { continue };
            registry.add_reading(bearer, &sample, self.seen.entry(*id).or_default());
        }
        // It is so at each reading for as long as those cgroups are there.
        let is_news = std::mem::replace(&mut self.said, unreadable) != unreadable;
        if let Some(error) = first_error.filter(|_| is_news) {
            let first = format!("{error:#}");
            warn!(domain = R::DOMAIN, count = unreadable, first, "Files of cgroups could not be read.");
        }
        self.unreadable += unreadable;
    }

    fn forget(&mut self, id: u64) {
        self.seen.remove(&id);
    }

    fn losses(&self) -> LostUpdates {
        LostUpdates { domain: R::DOMAIN.into(), reason: "unreadable".into(), count: self.unreadable }
    }
}

impl Read for CpuFiles {
    const DOMAIN: &'static str = "cpu";
    type Sample = CpuSample;

    /// An inner node is of interest only where it sets a limit of its own.
    fn read(&mut self, cgroup: &str, place: Place) -> Result<Option<CpuSample>> {
        let sample = Self::read(self, cgroup)?;
        Ok(sample.filter(|sample| place == Place::Workload || sample.quota_cores.is_some()))
    }
}

impl Read for MemoryFiles {
    const DOMAIN: &'static str = "memory";
    type Sample = MemorySample;

    fn read(&mut self, cgroup: &str, place: Place) -> Result<Option<MemorySample>> {
        Self::read(self, cgroup, place)
    }
}

impl Read for PressureFiles {
    const DOMAIN: &'static str = "pressure";
    type Sample = PressureSample;

    fn read(&mut self, cgroup: &str, place: Place) -> Result<Option<PressureSample>> {
        Self::read(self, cgroup, place)
    }
}

/// The root's files speak of the whole machine, and those of a sub-cgroup are in its workload's own.
fn with_series(identity: &Identity) -> Vec<(u64, &Cgroup, Place)> {
    let parents = identity.tree().parents();
    let place = |cgroup: &Cgroup| match () {
        () if is_workload(cgroup) || !parents.contains(cgroup.path.as_str()) => Place::Workload,
        () if cgroup.name.pod_uid.is_some() => Place::Pod,
        () => Place::Inner,
    };
    let tops = identity.tree().alive().filter(|(_, cgroup)| cgroup.path != "/" && cgroup.name.is_top);
    tops.map(|(id, cgroup)| (id, cgroup, place(cgroup))).collect()
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
