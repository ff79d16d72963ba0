//! The activity of workloads between two snapshots, as amounts that can be added up: a pod's amounts are the
//! sums over its containers.

use super::{disk, network::NetworkDone, storage};
use crate::probe;
use crate::snapshot::{
    BlockSample, CpuSample, DomainState, RxpathSample, SchedSample, Snapshot, Throttling, VfsSample,
    Workload, WorkloadKind, WorkloadSample,
};

/// The length of a window, and what the domains count in it as they are attached.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) seconds: f64,
    /// Storage operations. The totals of a paused domain stay as they are, which is not the same as no
    /// activity.
    pub(super) counts_operations: bool,
    /// Major page faults.
    pub(super) counts_faults: bool,
    /// Dropped packets.
    pub(super) counts_drops: bool,
}

impl Window {
    pub(super) fn of(earlier: &Snapshot, later: &Snapshot) -> Self {
        let counts = |name, what: fn(&DomainState) -> bool| later.domain(name).is_none_or(what);
        Self {
            seconds: later.window_since(earlier).as_secs_f64(),
            counts_operations: counts("vfs", |vfs| vfs.up),
            counts_faults: counts("vfs", |vfs| vfs.hooks_functions() && vfs.sees(probe::FAULT)),
            counts_drops: counts("net", |net| net.up && net.sees(probe::DROP)),
        }
    }

    pub(super) fn rate(self, amount: f64) -> Option<f64> {
        (self.seconds > 0.0).then(|| amount / self.seconds)
    }

    pub(super) fn seconds_rate(self, nanoseconds: u64) -> Option<f64> {
        self.rate(nanoseconds as f64 / 1e9)
    }
}

/// The activity of a workload or a pod in a window. A part is `None` if its domain is off or does not apply.
#[derive(Clone, Debug)]
pub(super) struct Done {
    pub(super) workload: Workload,
    pub(super) kind: WorkloadKind,
    pub(super) sched: Option<SchedSample>,
    pub(super) usage_ns: Option<u64>,
    /// Throttled periods divided by periods; `None` unless a period of a quota elapsed.
    pub(super) throttled_ratio: Option<f64>,
    pub(super) throttled_ns: Option<u64>,
    pub(super) quota_cores: Option<f64>,
    pub(super) vfs: Option<VfsSample>,
    pub(super) block: Option<BlockSample>,
    pub(super) network: Option<NetworkDone>,
    pub(super) rxpath: Option<RxpathSample>,
}

/// The activity of every wanted workload, in any order.
pub(super) fn each<'a>(
    earlier: &'a Snapshot,
    later: &'a Snapshot,
    is_wanted: impl Fn(&WorkloadSample) -> bool + 'a,
) -> impl Iterator<Item = Done> + 'a {
    let before = earlier.beginning();
    let wanted = later.workloads.iter().filter(move |sample| is_wanted(sample));
    wanted.map(move |sample| Done::of(before.of(sample), sample))
}

impl Done {
    pub(super) fn of(earlier: Option<&WorkloadSample>, later: &WorkloadSample) -> Self {
        let throttling = throttling_since(earlier, later);
        Self {
            workload: later.workload.clone(),
            kind: later.kind,
            sched: sched_since(earlier, later),
            usage_ns: usage_since(earlier, later),
            throttled_ratio: throttling.map(|since| since.throttled_periods as f64 / since.periods as f64),
            throttled_ns: throttling.map(|since| since.throttled_ns),
            quota_cores: later.cpu.as_ref().and_then(|cpu| cpu.quota_cores),
            vfs: storage::since(earlier, later),
            block: disk::since(earlier, later),
            network: NetworkDone::of(earlier, later),
            rxpath: rxpath_since(earlier, later),
        }
    }

    /// The pod that this is a container of; `None` outside of pods.
    pub(super) fn pod(&self) -> Option<Workload> {
        self.workload.whole_pod()
    }

    /// Adds another container of the same pod.
    pub(super) fn add(&mut self, other: &Self) {
        add(&mut self.sched, other.sched.as_ref(), SchedSample::add);
        add(&mut self.vfs, other.vfs.as_ref(), VfsSample::add);
        add(&mut self.block, other.block.as_ref(), BlockSample::add);
        add(&mut self.network, other.network.as_ref(), NetworkDone::add);
        add(&mut self.rxpath, other.rxpath.as_ref(), RxpathSample::add);
        add(&mut self.throttled_ns, other.throttled_ns.as_ref(), |own, other| *own += other);
        // A pod is as throttled as its most throttled part: a part that does not need its quota does not
        // improve that.
        add(&mut self.throttled_ratio, other.throttled_ratio.as_ref(), |own, other| *own = own.max(*other));
        add(&mut self.usage_ns, other.usage_ns.as_ref(), |own, other| *own += other);
        // If one container has no quota, the pod has none.
        self.quota_cores = self.quota_cores.zip(other.quota_cores).map(|(own, other)| own + other);
    }

    /// Adds the pod's own cgroup to the sum of the containers. Its files already include theirs, except for
    /// throttled time: that of its own quota, which its containers mostly exhaust at the same time.
    pub(super) fn add_own(&mut self, own: &Self) {
        let (usage_ns, quota_cores) = (self.usage_ns, self.quota_cores);
        let throttled_ns = self.throttled_ns.max(own.throttled_ns);
        self.add(own);
        self.throttled_ns = throttled_ns;
        self.usage_ns = own.usage_ns.or(usage_ns);
        self.quota_cores = own.quota_cores.or(quota_cores);
    }
}

/// If one of them is missing, the result is the other.
pub(super) fn add<T: Clone>(own: &mut Option<T>, other: Option<&T>, add: impl FnOnce(&mut T, &T)) {
    match (own, other) {
        (_, None) => {}
        (Some(own), Some(other)) => add(own, other),
        (own @ None, Some(other)) => *own = Some(other.clone()),
    }
}

fn rxpath_since(earlier: Option<&WorkloadSample>, later: &WorkloadSample) -> Option<RxpathSample> {
    let before = earlier.and_then(|sample| sample.rxpath.as_ref());
    later.rxpath.as_ref().map(|later| RxpathSample::in_window(before, later))
}

fn sched_since(earlier: Option<&WorkloadSample>, later: &WorkloadSample) -> Option<SchedSample> {
    let earlier = earlier.and_then(|sample| sample.sched.as_ref());
    later.sched.as_ref().map(|later| SchedSample::in_window(earlier, later))
}

/// The kernel counts these since the cgroup was created. A new cgroup therefore started at zero, but the
/// earlier total of one that could not be read is unknown.
fn cpu_before(earlier: Option<&WorkloadSample>) -> Option<CpuSample> {
    match earlier {
        None => Some(CpuSample {
            usage_ns: Some(0),
            throttling: Some(Throttling::default()),
            ..CpuSample::default()
        }),
        Some(sample) => sample.cpu.clone(),
    }
}

fn usage_since(earlier: Option<&WorkloadSample>, later: &WorkloadSample) -> Option<u64> {
    let before = cpu_before(earlier)?.usage_ns?;
    let now = later.cpu.as_ref()?.usage_ns?;
    Some(now.checked_sub(before).unwrap_or(now))
}

/// `None` if no period of a quota elapsed.
fn throttling_since(earlier: Option<&WorkloadSample>, later: &WorkloadSample) -> Option<Throttling> {
    let before = cpu_before(earlier)?.throttling?;
    let now = later.cpu.as_ref()?.throttling?;
    let since = || {
        Some(Throttling {
            periods: now.periods.checked_sub(before.periods)?,
            throttled_periods: now.throttled_periods.checked_sub(before.throttled_periods)?,
            throttled_ns: now.throttled_ns.checked_sub(before.throttled_ns)?,
        })
    };
    since().or(Some(now)).filter(|t| t.periods > 0)
}

#[cfg(test)]
mod tests;
