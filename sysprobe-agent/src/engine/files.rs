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
use crate::plan::{Decision, Plan};
use crate::snapshot::{CpuSample, DomainState, LostUpdates, WorkloadKind};
use crate::workload::{Reading, Registry};

pub(super) struct Files {
    cpu: Option<Domain<CpuFiles>>,
}

/// What reads the files of one domain.
trait Read {
    const DOMAIN: &'static str;
    type Sample: Reading;

    /// `None` of a cgroup that has gone, or of which nothing is to be said.
    fn read(&mut self, cgroup: &str, place: Place) -> Result<Option<Self::Sample>>;
}

struct Domain<R: Read> {
    files: R,
    /// By cgroup.
    seen: HashMap<u64, <R::Sample as Reading>::Seen>,
    unreadable: u64,
}

impl Files {
    pub(super) fn start(plan: &Plan, key: &KeyHierarchy, domains: &mut Vec<DomainState>) -> Self {
        let mut is_on = |name| {
            domains.push(file_domain(name, plan.decision(name)));
            matches!(plan.decision(name), Some(Decision::On(_)))
        };
        Self { cpu: is_on(CpuFiles::DOMAIN).then(|| Domain::new(CpuFiles::new(key.clone()))) }
    }

    pub(super) fn collect(
        &mut self,
        identity: &Identity,
        attribution: &mut Attribution,
        registry: &mut Registry,
    ) {
        let cgroups = with_series(identity);
        if let Some(cpu) = &mut self.cpu {
            cpu.collect(&cgroups, attribution, registry);
        }
    }

    /// A cgroup has gone.
    pub(super) fn forget(&mut self, id: u64) {
        if let Some(cpu) = &mut self.cpu {
            cpu.seen.remove(&id);
        }
    }

    pub(super) fn losses(&self) -> impl Iterator<Item = LostUpdates> {
        self.cpu.iter().map(Domain::losses)
    }
}

impl<R: Read> Domain<R> {
    fn new(files: R) -> Self {
        Self { files, seen: HashMap::new(), unreadable: 0 }
    }

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
        if let Some(error) = first_error {
            let first = format!("{error:#}");
            warn!(domain = R::DOMAIN, count = unreadable, first, "Files of cgroups could not be read.");
        }
        self.unreadable += unreadable;
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
