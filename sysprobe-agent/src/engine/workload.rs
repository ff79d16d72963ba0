//! The totals of every workload, from its first appearance until its grace period has ended. Several cgroups
//! may be one workload (sub-cgroups of a container). A deleted cgroup keeps its share, so totals never go
//! backwards. Only those of a workload that waited for series begin anew, with the series.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sysprobe_common::sched::threads::Threads;

use crate::domain::sched::blame::Blame;
use crate::domain::slots::Charge;
use crate::host;
use crate::pods::pod::Pod;
use crate::snapshot::{
    CpuSample, Hidden, PodTotals, SchedSample, SocketsSample, Workload, WorkloadKind, WorkloadSample,
};

mod admission;
mod last_kills;
mod owner;
mod reading;

pub(crate) use admission::Admission;
pub(crate) use last_kills::LastKills;
pub(crate) use owner::Owner;
pub(crate) use reading::Reading;

#[derive(Debug)]
pub(crate) struct Registry {
    admission: Admission,
    workloads: HashMap<Workload, Totals>,
    /// Number of workloads that are not hidden.
    admitted: usize,
    /// Number of workloads that get series before new ones do.
    waiting: usize,
    /// The sum of the hidden workloads, including deleted ones.
    other: Option<WorkloadSample>,
    /// By namespace and pod.
    pods: HashMap<(String, String), PodTotals>,
    /// When the named culprits were last chosen.
    chosen: Option<Instant>,
    /// The time of the last collection, or of the agent's start: a workload without totals had been idle
    /// until then.
    collected: Instant,
}

#[derive(Debug)]
struct Totals {
    sample: WorkloadSample,
    pod: Option<Arc<Pod>>,
    blame: Blame,
    gone_since: Option<Instant>,
    hidden: Option<Hidden>,
}

impl Default for Registry {
    fn default() -> Self {
        Self::new(Admission::default())
    }
}

impl Registry {
    pub(crate) fn new(admission: Admission) -> Self {
        Self {
            admission,
            workloads: HashMap::new(),
            admitted: 0,
            waiting: 0,
            other: None,
            pods: HashMap::new(),
            chosen: None,
            collected: Instant::now(),
        }
    }

    /// Notes that a collection is complete.
    pub(crate) const fn note_collection(&mut self, now: Instant) {
        self.collected = now;
    }

    /// The time since which new totals are counted: when the agent learned of the cgroup, but no earlier than
    /// the last collection. A server that gets this time may insert a 0 there, which it rejects if it is
    /// hours old.
    fn created_ms(&self, owner: &Owner) -> u64 {
        host::unix_ms(owner.since.map_or(self.collected, |since| since.max(self.collected)))
    }

    /// Adds to a workload's totals. Idle counters create no series.
    pub(crate) fn add(&mut self, owner: &Owner, gathered: &(impl Charge + ?Sized)) {
        if gathered.is_idle() {
            return;
        }
        let is_hidden = self.each_sample(owner, |sample| gathered.add_to(sample));
        if owner.pod.is_some() && !is_hidden && gathered.is_of_pods() {
            let Workload { namespace, pod, .. } = &owner.workload;
            let created_ms = self.created_ms(owner);
            let (namespace, pod) = (namespace.clone(), pod.clone());
            let of_pod = self.pods.entry((namespace, pod)).or_insert_with_key(|(namespace, pod)| PodTotals {
                namespace: namespace.clone(),
                pod: pod.clone(),
                created_ms,
                ..PodTotals::default()
            });
            gathered.add_to_pod(of_pod);
        }
    }

    /// Adds the time that one waited while the other ran.
    pub(crate) fn add_interference(&mut self, victim: &Owner, culprit: &Owner, ns: u64) {
        let is_own = culprit.is_of_same_pod(victim);
        self.each_sample(victim, |sample| {
            let causes = sample.sched.get_or_insert_default().causes.get_or_insert_default();
            *match culprit.kind {
                _ if is_own => &mut causes.same_pod_ns,
                WorkloadKind::Kernel => &mut causes.kernel_ns,
                WorkloadKind::Unknown => &mut causes.unknown_ns,
                _ if culprit.pod.is_some() => &mut causes.other_pod_ns,
                _ => &mut causes.system_ns,
            } += ns;
        });
        if !is_own && !matches!(culprit.kind, WorkloadKind::Kernel | WorkloadKind::Unknown) {
            let created_ms = host::unix_ms(self.collected);
            self.totals(victim).blame.add(&culprit.workload.as_culprit(), ns, created_ms);
        }
    }

    /// Chooses the culprits of each workload that are named.
    pub(crate) fn choose_culprits(&mut self, now: Instant) {
        let since = self.chosen.replace(now);
        let seconds = since.map_or(0.0, |since| now.duration_since(since).as_secs_f64());
        let created_ms = host::unix_ms(now);
        self.workloads.values_mut().for_each(|totals| totals.blame.choose(seconds, created_ms));
    }

    /// Adds the increase of a cgroup's files since `seen`.
    pub(crate) fn add_reading<R: Reading>(&mut self, owner: &Owner, now: &R, seen: &mut R::Seen) {
        let before = seen.clone();
        self.each_sample(owner, |sample| {
            *seen = before.clone();
            now.add_to(sample, seen);
        });
    }

    /// To be called if the files of a workload's cgroup are no longer exported.
    pub(crate) fn forget_settings<R: Reading>(&mut self, owner: &Owner) {
        self.each_sample(owner, R::forget_settings);
    }

    /// To be called before the memory of all cgroups is read again.
    pub(crate) fn forget_memory_levels(&mut self) {
        let memory = self.samples_mut().filter_map(|sample| sample.memory.as_mut());
        memory.for_each(|memory| memory.levels = None);
    }

    /// To be called before all sockets are counted again.
    pub(crate) fn forget_sockets(&mut self) {
        let tcp = self.samples_mut().filter_map(|sample| sample.tcp.as_mut());
        tcp.for_each(|tcp| tcp.sockets = SocketsSample::default());
    }

    /// Adds the sockets of one of a workload's cgroups.
    pub(crate) fn add_sockets(&mut self, owner: &Owner, sockets: &SocketsSample) {
        if *sockets != SocketsSample::default() {
            self.each_sample(owner, |sample| sample.tcp.get_or_insert_default().sockets.add(sockets));
        }
    }

    /// To be called before all threads are counted again.
    pub(crate) fn forget_threads(&mut self) {
        self.each_sched(|sched| sched.threads = None);
    }

    /// Adds the threads of one of a workload's cgroups.
    pub(crate) fn add_threads(&mut self, owner: &Owner, threads: &Threads) {
        if *threads != Threads::NONE {
            self.each_sample(owner, |sample| {
                sample.sched.get_or_insert_default().threads.get_or_insert_default().add(threads);
            });
        }
    }

    /// Updates the load averages after all threads have been counted.
    pub(crate) fn fold_loads(&mut self, periods: u32) {
        self.each_sched(|sched| {
            sched.load =
                sched.threads.map(|threads| sched.load.unwrap_or_default().after(threads.load, periods));
        });
    }

    fn each_sched(&mut self, act: impl FnMut(&mut SchedSample)) {
        self.samples_mut().filter_map(|sample| sample.sched.as_mut()).for_each(act);
    }

    fn samples_mut(&mut self) -> impl Iterator<Item = &mut WorkloadSample> {
        self.workloads.values_mut().map(|totals| &mut totals.sample).chain(&mut self.other)
    }

    /// Acts on the workload's sample, and also on `other` if the workload is hidden; returns whether it is.
    fn each_sample(&mut self, owner: &Owner, mut act: impl FnMut(&mut WorkloadSample)) -> bool {
        let totals = self.totals(owner);
        act(&mut totals.sample);
        let (is_hidden, created_ms) = (totals.hidden.is_some(), totals.sample.created_ms);
        if is_hidden {
            let new = || WorkloadSample {
                created_ms,
                ..WorkloadSample::new(Workload::other(), WorkloadKind::Other)
            };
            act(self.other.get_or_insert_with(new));
        }
        is_hidden
    }

    fn totals(&mut self, owner: &Owner) -> &mut Totals {
        let Owner { workload, kind, pod, .. } = owner;
        // Two look-ups, so that the usual case (a known workload) copies no strings.
        if !self.workloads.contains_key(workload) {
            let hidden = self.admission.hides(owner, self.admitted + self.waiting);
            self.admitted += usize::from(hidden.is_none());
            self.waiting += usize::from(hidden == Some(Hidden::OverBudget));
            let created_ms = self.created_ms(owner);
            let sample =
                WorkloadSample { created_ms, hidden, ..WorkloadSample::new(workload.clone(), *kind) };
            let totals = Totals { sample, pod: None, blame: Blame::default(), gone_since: None, hidden };
            self.workloads.insert(workload.clone(), totals);
        }
        let totals = self.workloads.get_mut(workload).expect("it was inserted above if it was not there");
        totals.pod.clone_from(pod);
        totals
    }

    /// Starts the grace period of workloads without cgroups, and drops those whose grace period has ended.
    /// What is charged meanwhile, such as open sockets of a removed cgroup, does not prolong it.
    pub(crate) fn expire(&mut self, is_alive: impl Fn(&Workload) -> bool, now: Instant, grace: Duration) {
        self.workloads.retain(|workload, totals| {
            if is_alive(workload) {
                totals.gone_since = None;
                return true;
            }
            if let Some(sched) = &mut totals.sample.sched {
                (sched.threads, sched.load) = (None, None);
            }
            CpuSample::forget_settings(&mut totals.sample);
            now.duration_since(*totals.gone_since.get_or_insert(now)) < grace
        });
        self.admitted = self.workloads.values().filter(|totals| totals.hidden.is_none()).count();
        self.waiting = self.workloads.values().filter(|totals| totals.waits_for_room()).count();
        let pods: HashSet<_> =
            self.workloads.keys().map(|workload| (&workload.namespace, &workload.pod)).collect();
        self.pods.retain(|(namespace, pod), _| pods.contains(&(namespace, pod)));
        let culprits: HashSet<_> = self.workloads.keys().map(Workload::as_culprit).collect();
        for totals in self.workloads.values_mut() {
            totals.blame.retain(|culprit| culprits.contains(culprit));
        }
    }

    /// Gives series to workloads that found no room when they appeared, the oldest first. To be called before
    /// a collection, which then brings what their cgroups have counted since the last one.
    pub(crate) fn admit_waiting(&mut self) {
        let (room, created_ms) = (self.admission.room(self.admitted), host::unix_ms(self.collected));
        if room == 0 || self.waiting == 0 {
            return;
        }
        let mut waiting: Vec<_> =
            self.workloads.iter_mut().filter(|(_, totals)| totals.waits_for_room()).collect();
        waiting.sort_unstable_by(|(one, a), (other, b)| {
            (a.sample.created_ms, one).cmp(&(b.sample.created_ms, other))
        });
        for (_, totals) in waiting.into_iter().take(room) {
            totals.begin_series(created_ms);
            self.admitted += 1;
            self.waiting -= 1;
        }
    }

    #[must_use]
    pub(crate) fn samples(&self) -> Vec<WorkloadSample> {
        self.workloads.values().map(Totals::sample).collect()
    }

    /// The sum of the hidden workloads, if there are or were any. It has no settings, because they cannot be
    /// added up.
    #[must_use]
    pub(crate) fn other(&self) -> Option<WorkloadSample> {
        let mut other = self.other.clone()?;
        other.cpu = other.cpu.map(CpuSample::without_settings);
        Some(other)
    }

    /// Number of workloads without series of their own, by reason.
    pub(crate) fn hidden(&self) -> impl Iterator<Item = (Hidden, u64)> {
        let count = |hidden| self.workloads.values().filter(|totals| totals.hidden == Some(hidden)).count();
        Hidden::ALL.into_iter().map(move |hidden| (hidden, count(hidden) as u64))
    }

    #[must_use]
    pub(crate) fn pods(&self) -> Vec<PodTotals> {
        self.pods.values().cloned().collect()
    }
}

impl Totals {
    fn waits_for_room(&self) -> bool {
        self.hidden == Some(Hidden::OverBudget) && self.gone_since.is_none()
    }

    /// The series begin at 0: what the workload did before is in `other`, which keeps it.
    fn begin_series(&mut self, created_ms: u64) {
        let WorkloadSample { workload, kind, .. } = &self.sample;
        self.sample = WorkloadSample { created_ms, ..WorkloadSample::new(workload.clone(), *kind) };
        self.blame = Blame::default();
        self.hidden = None;
    }

    fn sample(&self) -> WorkloadSample {
        let mut sample = self.sample.clone();
        sample.gone = self.gone_since.is_some();
        sample.pod = self.pod.as_deref().map(owner::describe);
        if let Some(sched) = &mut sample.sched {
            sched.blame = self.blame.sample();
        }
        sample
    }
}

#[cfg(test)]
mod tests;
