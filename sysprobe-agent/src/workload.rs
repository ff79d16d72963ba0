//! The totals of every workload, from the first time it was seen until its grace has ended. Several cgroups may be one
//! workload (sub-cgroups of a container), and one that goes takes nothing away: totals never go backwards.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sysprobe_common::block::BlockStats;
use sysprobe_common::net::{DropStats, NetStats};
use sysprobe_common::reclaim::ReclaimStats;
use sysprobe_common::sched::SchedStats;
use sysprobe_common::sched::threads::Threads;
use sysprobe_common::sched::throttle::ThrottleStats;
use sysprobe_common::tcp::TcpStats;
use sysprobe_common::vfs::VfsStats;

use crate::cgroup::name::Name;
use crate::pods::Answer;
use crate::pods::pod::Pod;
use crate::sched::blame::Blame;
use crate::snapshot::{
    PodSample, PodTotals, SchedSample, SocketsSample, Workload, WorkloadKind, WorkloadSample,
};
use crate::{block, net, reclaim, sched, tcp, vfs};

mod reading;

pub(crate) use reading::Reading;

/// Who bears a cgroup's numbers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bearer {
    pub(crate) workload: Workload,
    kind: WorkloadKind,
    pod: Option<Arc<Pod>>,
}

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

/// What a domain gathered for one cgroup.
pub(crate) trait Charge: Send {
    /// Whether that is nothing at all.
    fn is_idle(&self) -> bool;
    fn add_to(&self, workload: &mut WorkloadSample);
    fn add_to_pod(&self, pod: &mut PodTotals);
}

impl Charge for SchedStats {
    fn is_idle(&self) -> bool {
        sched::is_idle(self)
    }

    fn add_to(&self, workload: &mut WorkloadSample) {
        sched::accumulate(workload.sched.get_or_insert_default(), self);
    }

    fn add_to_pod(&self, pod: &mut PodTotals) {
        sched::accumulate_waits(&mut pod.wait, self);
    }
}

impl Charge for ThrottleStats {
    fn is_idle(&self) -> bool {
        self.throttled_ns == 0 && self.threads == 0 && self.lengths.iter().all(|count| *count == 0)
    }

    fn add_to(&self, workload: &mut WorkloadSample) {
        sched::accumulate_throttles(workload.throttle.get_or_insert_default(), self);
    }

    fn add_to_pod(&self, pod: &mut PodTotals) {
        sched::accumulate_throttles(&mut pod.throttle, self);
    }
}

impl Charge for VfsStats {
    fn is_idle(&self) -> bool {
        vfs::is_idle(self)
    }

    fn add_to(&self, workload: &mut WorkloadSample) {
        vfs::accumulate(workload.vfs.get_or_insert_default(), self);
    }

    fn add_to_pod(&self, pod: &mut PodTotals) {
        vfs::accumulate(&mut pod.vfs, self);
    }
}

impl Charge for BlockStats {
    fn is_idle(&self) -> bool {
        block::is_idle(self)
    }

    fn add_to(&self, workload: &mut WorkloadSample) {
        block::accumulate(workload.block.get_or_insert_default(), self);
    }

    fn add_to_pod(&self, pod: &mut PodTotals) {
        block::accumulate(&mut pod.block, self);
    }
}

impl Charge for TcpStats {
    fn is_idle(&self) -> bool {
        tcp::is_idle(self)
    }

    fn add_to(&self, workload: &mut WorkloadSample) {
        tcp::accumulate(workload.tcp.get_or_insert_default(), self);
    }

    fn add_to_pod(&self, pod: &mut PodTotals) {
        tcp::accumulate_times(&mut pod.tcp, self);
    }
}

/// There are no histograms in it.
impl Charge for NetStats {
    fn is_idle(&self) -> bool {
        *self == Self::ZERO
    }

    fn add_to(&self, workload: &mut WorkloadSample) {
        net::accumulate(workload.net.get_or_insert_default(), self);
    }

    fn add_to_pod(&self, _pod: &mut PodTotals) {}
}

impl Charge for DropStats {
    fn is_idle(&self) -> bool {
        self.packets == 0
    }

    fn add_to(&self, workload: &mut WorkloadSample) {
        net::accumulate_drops(workload.net.get_or_insert_default(), self);
    }

    fn add_to_pod(&self, _pod: &mut PodTotals) {}
}

impl Charge for ReclaimStats {
    fn is_idle(&self) -> bool {
        self.reclaims == 0
    }

    fn add_to(&self, workload: &mut WorkloadSample) {
        reclaim::accumulate(workload.reclaim.get_or_insert_default(), self);
    }

    fn add_to_pod(&self, _pod: &mut PodTotals) {}
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
        for totals in self.workloads.values_mut() {
            totals.blame.choose(seconds);
            if let Some(sched) = &mut totals.sample.sched {
                sched.blame = totals.blame.sample();
            }
        }
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
        let sample = |totals: &Totals| WorkloadSample {
            gone: totals.gone_since.is_some(),
            pod: totals.pod.as_deref().map(describe),
            ..totals.sample.clone()
        };
        self.workloads.values().map(sample).collect()
    }

    #[must_use]
    pub(crate) fn pods(&self) -> Vec<PodTotals> {
        self.pods.values().cloned().collect()
    }
}

impl Bearer {
    /// What is no pod, or not known to be one.
    #[must_use]
    pub(crate) fn of_path(name: &Name) -> Self {
        Self { workload: labels("", "", &name.name), kind: name.kind, pod: None }
    }

    /// A container that only its pod is known of has its id as name.
    #[must_use]
    pub(crate) fn of_answer(answer: &Answer, name: &Name) -> Self {
        let container = answer.container().or(name.container_id.as_deref()).unwrap_or_default();
        let Some(pod) = answer.pod() else {
            return match answer {
                Answer::Plain { .. } => Self { workload: labels("", "", container), ..Self::of_path(name) },
                _ => Self::of_path(name),
            };
        };
        let kind = if container.is_empty() { WorkloadKind::Pod } else { WorkloadKind::Container };
        Self { workload: labels(&pod.namespace, &pod.name, container), kind, pod: Some(Arc::clone(pod)) }
    }

    /// Whether what one of them runs is the other's own doing.
    #[must_use]
    fn is_of_same_pod(&self, other: &Self) -> bool {
        if self.pod.is_some() || other.pod.is_some() {
            let (own, other) = (&self.workload, &other.workload);
            return own.pod == other.pod && own.namespace == other.namespace;
        }
        self.workload == other.workload
    }

    /// Kernel threads.
    #[must_use]
    pub(crate) fn kernel() -> Self {
        Self { workload: labels("", "", "kernel"), kind: WorkloadKind::Kernel, pod: None }
    }

    /// What cannot be attributed.
    #[must_use]
    pub(crate) fn unknown() -> Self {
        Self { workload: labels("", "", "unknown"), kind: WorkloadKind::Unknown, pod: None }
    }

    /// Whether the answer says nothing new.
    #[must_use]
    pub(crate) fn is_of(&self, answer: &Answer) -> bool {
        let is_same_pod = match (&self.pod, answer.pod()) {
            (Some(ours), Some(theirs)) => Arc::ptr_eq(ours, theirs),
            (None, None) => true,
            _ => false,
        };
        is_same_pod && answer.container().unwrap_or_default() == self.workload.container
    }
}

fn labels(namespace: &str, pod: &str, container: &str) -> Workload {
    Workload { namespace: namespace.to_owned(), pod: pod.to_owned(), container: container.to_owned() }
}

fn describe(pod: &Pod) -> PodSample {
    let owner = pod.owner.as_ref();
    // What made the ReplicaSet is what people know.
    let deployment = owner.and_then(|owner| owner.deployment.as_deref());
    PodSample {
        uid: pod.uid.to_string(),
        node: pod.node.as_deref().map(str::to_owned),
        qos: pod.qos,
        owner_kind: deployment
            .map_or_else(|| owner.map(|owner| owner.kind.to_string()), |_| Some("Deployment".into())),
        owner_name: deployment
            .map_or_else(|| owner.map(|owner| owner.name.to_string()), |name| Some(name.into())),
        host_network: pod.host_network,
    }
}

#[cfg(test)]
mod tests;
