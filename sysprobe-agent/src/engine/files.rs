//! The domains that read cgroup files, as far as the plan enables them. They read every cgroup that has
//! series and add the readings to its workload.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use anyhow::Result;
use tracing::warn;

use super::attribution::Attribution;
use super::cgroup_tracker::CgroupTracker;
use super::charging::Reaping;
use super::rotation::Rotation;
use super::start::file_domain;
use super::workload::{LastKills, Reading, Registry};
use crate::cgroup::files::Place;
use crate::cgroup::mounts::KeyHierarchy;
use crate::cgroup::tree::{Cgroup, Origin, Tree};
use crate::domain::cpu::CpuFiles;
use crate::domain::memory::MemoryFiles;
use crate::domain::pressure::PressureFiles;
use crate::domain::slots::Charge as _;
use crate::host;
use crate::plan::{Decision, Plan};
use crate::snapshot::{
    CpuSample, DomainState, LostUpdates, MemorySample, PressureSample, ScanSample, WorkloadKind,
};

/// Time limit of a pass, which runs on the engine's thread; cgroups that do not fit are read in the next
/// pass. Reading a cgroup's files takes about 80 us (8 to 13 per file, mostly to open it), so this is enough
/// for 3,000 cgroups. Keeping the files open would cut that to a third, but cost 5 KiB per file.
const PASS_LIMIT: Duration = Duration::from_millis(250);

pub(super) struct Files {
    cpu: Option<Domain<CpuFiles>>,
    memory: Option<Domain<MemoryFiles>>,
    pressure: Option<Domain<PressureFiles>>,
    rotation: Rotation,
    scan: ScanSample,
}

/// Reads the files of one domain.
trait Read {
    const DOMAIN: &'static str;
    type Sample: Reading;

    /// `None` for a deleted cgroup, or if there is nothing to export.
    fn read(&mut self, cgroup: &str, place: Place) -> Result<Option<Self::Sample>>;
}

/// A domain, independent of its sample type.
trait ReadDomain {
    /// Reads the files of cgroups older than the agent: their present totals must not be counted.
    fn take_baseline(&mut self, tree: &Tree, cgroups: &[Of<'_>]);
    /// Reads the files of a cgroup, and adds what is new to its workload.
    fn read(&mut self, tree: &Tree, of: &Of<'_>, attribution: &mut Attribution, registry: &mut Registry);
    /// Adds the gauges that were last read for a cgroup.
    fn repeat(&mut self, of: &Of<'_>, attribution: &mut Attribution, registry: &mut Registry);
    /// Ends a pass.
    fn finish(&mut self);
    fn forget(&mut self, id: u64);
    fn losses(&self) -> LostUpdates;
}

/// A cgroup to read.
struct Of<'a> {
    id: u64,
    cgroup: &'a Cgroup,
    place: Place,
    now: Instant,
}

struct Domain<R: Read> {
    files: R,
    /// The totals already counted, by cgroup.
    seen: HashMap<u64, <R::Sample as Reading>::Seen>,
    /// The last sample, by cgroup.
    last: HashMap<u64, R::Sample>,
    /// Parents of other cgroups that have nothing to export at present.
    left_out: HashSet<u64>,
    unreadable: u64,
    /// The number of failures of this pass, and the first error.
    failed: (u64, Option<anyhow::Error>),
    /// The number of failures that was last logged.
    said: u64,
}

impl Files {
    pub(super) fn start(plan: &Plan, key: &KeyHierarchy, domains: &mut Vec<DomainState>) -> Self {
        Self {
            cpu: Domain::start(plan, domains, || Some(CpuFiles::new(key.clone()))),
            memory: Domain::start(plan, domains, || MemoryFiles::new(key)),
            pressure: Domain::start(plan, domains, || PressureFiles::new(key)),
            rotation: Rotation::default(),
            scan: ScanSample {
                scan: "cgroup_files".into(),
                passes: 0,
                truncated: 0,
                last_ns: 0,
                longest_part_ns: 0,
            },
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

    /// Called at startup, before the first collection.
    pub(super) fn take_baseline(&mut self, tracker: &CgroupTracker) {
        let cgroups = with_series(tracker, Instant::now());
        self.domains().for_each(|domain| domain.take_baseline(tracker.tree(), &cgroups));
    }

    /// A cgroup that is not read in this pass contributes its last reading again.
    pub(super) fn collect(
        &mut self,
        tracker: &CgroupTracker,
        attribution: &mut Attribution,
        registry: &mut Registry,
    ) {
        let start = Instant::now();
        let mut cgroups = with_series(tracker, start);
        registry.forget_memory_levels();
        let mut rotation = std::mem::take(&mut self.rotation);
        let has_time = || start.elapsed() < PASS_LIMIT;
        let is_complete = rotation.round(
            &mut cgroups,
            |of| of.id,
            has_time,
            |of, has_turn| {
                for domain in self.domains() {
                    if has_turn {
                        domain.read(tracker.tree(), of, attribution, registry);
                    } else {
                        domain.repeat(of, attribution, registry);
                    }
                }
            },
        );
        self.rotation = rotation;
        self.domains().for_each(ReadDomain::finish);
        self.scan.truncated += u64::from(!is_complete);
        self.scan.passes += 1;
        // No longest part is reported: each file takes system calls of its own, so every part is short.
        self.scan.last_ns = host::nanoseconds(start.elapsed());
    }

    /// Statistics of the passes so far.
    pub(super) fn scan(&self) -> ScanSample {
        self.scan.clone()
    }

    /// Charges what a deleted cgroup's files would have said last, as far as its event does.
    pub(super) fn reap(&mut self, reaping: &mut Reaping<'_>) {
        let (id, cgroup) = (reaping.id, reaping.cgroup);
        if let Some(kills) = self.memory.as_mut().and_then(|memory| memory.last_kills(id, cgroup)) {
            reaping.charge(Box::new(kills));
        }
    }

    /// Forgets a deleted cgroup.
    pub(super) fn forget(&mut self, id: u64) {
        self.domains().for_each(|domain| domain.forget(id));
        self.rotation.forget(id);
    }

    pub(super) fn losses(&mut self) -> impl Iterator<Item = LostUpdates> {
        self.domains().map(|domain| domain.losses())
    }
}

impl<R: Read> Domain<R> {
    /// `None` if the plan does not enable it.
    fn start(plan: &Plan, domains: &mut Vec<DomainState>, files: impl FnOnce() -> Option<R>) -> Option<Self> {
        let decision = plan.decision(R::DOMAIN);
        let files = matches!(decision, Some(Decision::On(_))).then(files).flatten();
        domains.push(file_domain(R::DOMAIN, decision, files.is_some()));
        let files = files?;
        Some(Self {
            files,
            seen: HashMap::new(),
            last: HashMap::new(),
            left_out: HashSet::new(),
            unreadable: 0,
            failed: (0, None),
            said: 0,
        })
    }

    /// Exports nothing of a parent of other cgroups. Its settings are no longer valid.
    fn leave_out(&mut self, of: &Of<'_>, attribution: &mut Attribution, registry: &mut Registry) {
        self.left_out.insert(of.id);
        if self.last.remove(&of.id).is_some()
            && let Some(owner) = attribution.resolve(of.id, of.cgroup, of.now)
        {
            registry.forget_settings::<R::Sample>(owner);
        }
    }
}

impl Domain<MemoryFiles> {
    /// The OOM kills of a deleted cgroup that were not in the last reading. `None` if there are none, or if
    /// the cgroup has no series: one that groups others has some only if it set a limit of its own.
    fn last_kills(&mut self, id: u64, cgroup: &Cgroup) -> Option<LastKills> {
        let only_groups = !is_workload(cgroup) && (cgroup.is_parent || is_pod(cgroup));
        if !cgroup.name.is_top || (only_groups && !self.seen.contains_key(&id)) {
            return None;
        }
        let oom_kills = cgroup.oom_kills?;
        let told = MemorySample { oom_kills: Some(oom_kills), ..MemorySample::default() };
        let seen = self.seen.entry(id).or_insert_with(|| told.first_seen(cgroup.origin));
        Some(seen.last_kills(oom_kills)).filter(|kills| !kills.is_idle())
    }
}

impl<R: Read> ReadDomain for Domain<R> {
    /// Errors are not reported here: the collection logs and counts them.
    fn take_baseline(&mut self, tree: &Tree, cgroups: &[Of<'_>]) {
        for of in cgroups {
            let Some(path) = tree.path(of.id) else { continue };
            if let Ok(Some(sample)) = self.files.read(&path, of.place) {
                self.seen.insert(of.id, sample.first_seen(of.cgroup.origin));
            }
        }
    }

    fn read(&mut self, tree: &Tree, of: &Of<'_>, attribution: &mut Attribution, registry: &mut Registry) {
        let Some(path) = tree.path(of.id) else { return };
        let sample = match R::read(&mut self.files, &path, of.place) {
            Ok(Some(sample)) => sample,
            Ok(None) if of.place != Place::Workload => {
                return self.leave_out(of, attribution, registry);
            }
            Ok(None) => {
                self.last.remove(&of.id);
                return;
            }
            Err(error) => {
                self.failed.0 += 1;
                self.failed.1.get_or_insert(error);
                return;
            }
        };
        // What its totals have grown by meanwhile was used by its children, which have series of their own.
        if self.left_out.remove(&of.id) {
            self.seen.insert(of.id, sample.first_seen(Origin::Older));
        }
        // Also noted for a cgroup without a name yet: its totals start here.
        let seen = self.seen.entry(of.id).or_insert_with(|| sample.first_seen(of.cgroup.origin));
        let Some(owner) = attribution.resolve(of.id, of.cgroup, of.now) else { return };
        registry.add_reading(owner, &sample, seen);
        self.last.insert(of.id, sample);
    }

    /// The totals have already been counted, so this adds gauges only.
    fn repeat(&mut self, of: &Of<'_>, attribution: &mut Attribution, registry: &mut Registry) {
        let (Some(sample), Some(seen)) = (self.last.get(&of.id), self.seen.get_mut(&of.id)) else { return };
        let Some(owner) = attribution.resolve(of.id, of.cgroup, of.now) else { return };
        registry.add_reading(owner, sample, seen);
    }

    fn finish(&mut self) {
        let (unreadable, first_error) = std::mem::take(&mut self.failed);
        // The same cgroups fail in every pass: only a change is logged.
        let is_news = std::mem::replace(&mut self.said, unreadable) != unreadable;
        if let Some(error) = first_error.filter(|_| is_news) {
            let first = format!("{error:#}");
            warn!(domain = R::DOMAIN, count = unreadable, first, "Some cgroup files could not be read.");
        }
        self.unreadable += unreadable;
    }

    fn forget(&mut self, id: u64) {
        self.seen.remove(&id);
        self.last.remove(&id);
        self.left_out.remove(&id);
    }

    fn losses(&self) -> LostUpdates {
        LostUpdates { domain: R::DOMAIN.into(), reason: "unreadable".into(), count: self.unreadable }
    }
}

impl Read for CpuFiles {
    const DOMAIN: &'static str = "cpu";
    type Sample = CpuSample;

    /// An inner node matters only if it sets a limit of its own.
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

/// All cgroups with series. The root's files cover the whole machine, and a sub-cgroup is included in the
/// files of its workload.
fn with_series(tracker: &CgroupTracker, now: Instant) -> Vec<Of<'_>> {
    let parents = tracker.tree().parents();
    let place = |id: u64, cgroup: &Cgroup| match () {
        // Also for a moment without containers: it does not become a workload then.
        () if is_pod(cgroup) => Place::Pod,
        () if is_workload(cgroup) || !parents.contains(&id) => Place::Workload,
        () => Place::Inner,
    };
    let tops = tracker.tree().alive().filter(|(_, cgroup)| !cgroup.is_root() && cgroup.name.is_top);
    tops.map(|(id, cgroup)| Of { id, cgroup, place: place(id, cgroup), now }).collect()
}

/// Whether it is the cgroup of a pod as a whole.
const fn is_pod(cgroup: &Cgroup) -> bool {
    cgroup.name.pod_uid.is_some() && cgroup.name.container_id.is_none()
}

fn is_workload(cgroup: &Cgroup) -> bool {
    match cgroup.name.kind {
        WorkloadKind::Container => true,
        WorkloadKind::Unit => !groups_units(&cgroup.name.name),
        _ => false,
    }
}

/// Slices only group other units. So does the cgroup of a user's service manager: the manager itself is in
/// `init.scope` below it.
fn groups_units(unit: &str) -> bool {
    match unit.rsplit_once('.') {
        Some((_, "slice")) => true,
        Some((stem, "service")) => stem.starts_with("user@") && !stem.contains('/'),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
