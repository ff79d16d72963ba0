//! The totals of every workload, from the first time it was seen until its grace has ended. Several cgroups may be one
//! workload (sub-cgroups of a container), and one that goes takes nothing away: totals never go backwards.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sysprobe_common::sched::threads::Threads;

use crate::pods::pod::Pod;
use crate::sched::blame::Blame;
use crate::snapshot::{PodTotals, SchedSample, SocketsSample, Workload, WorkloadKind, WorkloadSample};

mod bearer;
mod charge;
mod reading;

pub(crate) use bearer::Bearer;
pub(crate) use charge::Charge;
pub(crate) use reading::Reading;

#[derive(Debug, Default)]
pub(crate) struct Registry {
    workloads: HashMap<Workload, Totals>,
    /// By namespace and pod.
    pods: HashMap<(String, String), PodTotals>,
    /// When it was last chosen which culprits are named.
    chosen: Option<Instant>,
}

#[derive(Debug)]
struct Totals {
    sample: WorkloadSample,
    pod: Option<Arc<Pod>>,
    blame: Blame,
    gone_since: Option<Instant>,
}

impl Registry {
    /// Adds to a workload's totals. What was never active makes no series.
    pub(crate) fn add(&mut self, bearer: &Bearer, gathered: &(impl Charge + ?Sized)) {
        if gathered.is_idle() {
            return;
        }
        gathered.add_to(self.sample(bearer));
        if bearer.pod.is_some() {
            let Workload { namespace, pod, .. } = &bearer.workload;
            let new = || PodTotals { namespace: namespace.clone(), pod: pod.clone(), ..PodTotals::default() };
            gathered.add_to_pod(self.pods.entry((namespace.clone(), pod.clone())).or_insert_with(new));
        }
    }

    /// Adds that one waited while the other ran.
    pub(crate) fn add_debt(&mut self, victim: &Bearer, culprit: &Bearer, ns: u64) {
        let totals = self.totals(victim);
        let causes = totals.sample.sched.get_or_insert_default().causes.get_or_insert_default();
        if culprit.is_of_same_pod(victim) {
            causes.same_pod_ns += ns;
            return;
        }
        match culprit.kind {
            WorkloadKind::Kernel => causes.kernel_ns += ns,
            WorkloadKind::Unknown => causes.unknown_ns += ns,
            _ => {
                let cause =
                    if culprit.pod.is_some() { &mut causes.other_pod_ns } else { &mut causes.system_ns };
                *cause += ns;
                totals.blame.add(&culprit.workload.as_culprit(), ns);
            }
        }
    }

    /// Chooses for each workload which of its culprits are told by name.
    pub(crate) fn choose_culprits(&mut self, now: Instant) {
        let since = self.chosen.replace(now);
        let seconds = since.map_or(0.0, |since| now.duration_since(since).as_secs_f64());
        self.workloads.values_mut().for_each(|totals| totals.blame.choose(seconds));
    }

    /// Adds what a cgroup's files say beyond `seen`.
    pub(crate) fn add_reading<R: Reading>(&mut self, bearer: &Bearer, now: &R, seen: &mut R::Seen) {
        now.add_to(self.sample(bearer), seen);
    }

    /// Before the memory of all cgroups is read anew.
    pub(crate) fn forget_memory_levels(&mut self) {
        let memory = self.workloads.values_mut().filter_map(|totals| totals.sample.memory.as_mut());
        memory.for_each(|memory| memory.levels = None);
    }

    /// Before all sockets are counted anew.
    pub(crate) fn forget_sockets(&mut self) {
        let tcp = self.workloads.values_mut().filter_map(|totals| totals.sample.tcp.as_mut());
        tcp.for_each(|tcp| tcp.sockets = SocketsSample::default());
    }

    /// Adds the sockets that one of a workload's cgroups has now.
    pub(crate) fn add_sockets(&mut self, bearer: &Bearer, sockets: &SocketsSample) {
        if *sockets != SocketsSample::default() {
            self.sample(bearer).tcp.get_or_insert_default().sockets.add(sockets);
        }
    }

    /// Before all threads are counted anew.
    pub(crate) fn forget_threads(&mut self) {
        self.each_sched(|sched| sched.threads = None);
    }

    /// Adds the threads that one of a workload's cgroups has now.
    pub(crate) fn add_threads(&mut self, bearer: &Bearer, threads: &Threads) {
        if *threads != Threads::NONE {
            self.sample(bearer).sched.get_or_insert_default().threads.get_or_insert_default().add(threads);
        }
    }

    /// Goes on with the load averages, when all threads have been counted.
    pub(crate) fn fold_loads(&mut self, periods: u32) {
        self.each_sched(|sched| {
            sched.load =
                sched.threads.map(|threads| sched.load.unwrap_or_default().after(threads.load, periods));
        });
    }

    fn each_sched(&mut self, act: impl FnMut(&mut SchedSample)) {
        self.workloads.values_mut().filter_map(|totals| totals.sample.sched.as_mut()).for_each(act);
    }

    fn sample(&mut self, bearer: &Bearer) -> &mut WorkloadSample {
        &mut self.totals(bearer).sample
    }

    fn totals(&mut self, bearer: &Bearer) -> &mut Totals {
        let Bearer { workload, kind, pod } = bearer;
        // Two look-ups, so that the usual case (it is known) copies no strings.
        if !self.workloads.contains_key(workload) {
            let sample = WorkloadSample {
                workload: workload.clone(),
                kind: *kind,
                gone: false,
                pod: None,
                sched: None,
                throttle: None,
                vfs: None,
                block: None,
                tcp: None,
                net: None,
                rxpath: None,
                reclaim: None,
                cpu: None,
                memory: None,
                pressure: None,
            };
            let totals = Totals { sample, pod: None, blame: Blame::default(), gone_since: None };
            self.workloads.insert(workload.clone(), totals);
        }
        let totals = self.workloads.get_mut(workload).expect("it was inserted above if it was not there");
        totals.gone_since = None;
        totals.pod.clone_from(pod);
        totals
    }

    /// Starts the grace of workloads that no cgroup bears any more, and drops those whose grace has ended.
    pub(crate) fn expire(&mut self, is_alive: impl Fn(&Workload) -> bool, now: Instant, grace: Duration) {
        self.workloads.retain(|workload, totals| {
            if is_alive(workload) {
                totals.gone_since = None;
                return true;
            }
            if let Some(sched) = &mut totals.sample.sched {
                (sched.threads, sched.load) = (None, None);
            }
            now.duration_since(*totals.gone_since.get_or_insert(now)) < grace
        });
        let pods: HashSet<_> =
            self.workloads.keys().map(|workload| (&workload.namespace, &workload.pod)).collect();
        self.pods.retain(|(namespace, pod), _| pods.contains(&(namespace, pod)));
        let culprits: HashSet<_> = self.workloads.keys().map(Workload::as_culprit).collect();
        for totals in self.workloads.values_mut() {
            totals.blame.retain(|culprit| culprits.contains(culprit));
        }
    }

    #[must_use]
    pub(crate) fn samples(&self) -> Vec<WorkloadSample> {
        self.workloads.values().map(Totals::sample).collect()
    }

    #[must_use]
    pub(crate) fn pods(&self) -> Vec<PodTotals> {
        self.pods.values().cloned().collect()
    }
}

impl Totals {
    fn sample(&self) -> WorkloadSample {
        let mut sample = self.sample.clone();
        sample.gone = self.gone_since.is_some();
        sample.pod = self.pod.as_deref().map(bearer::describe);
        if let Some(sched) = &mut sample.sched {
            sched.blame = self.blame.sample();
        }
        sample
    }
}

#[cfg(test)]
mod tests;
