//! Adds what a domain counted for one cgroup to the totals of its workload and pod. Each domain implements
//! how.

use sysprobe_common::block::BlockStats;
use sysprobe_common::net::{DropStats, NetStats};
use sysprobe_common::reclaim::ReclaimStats;
use sysprobe_common::rxpath::RxpathStats;
use sysprobe_common::sched::SchedStats;
use sysprobe_common::sched::throttle::ThrottleStats;
use sysprobe_common::tcp::TcpStats;
use sysprobe_common::vfs::VfsStats;

use crate::snapshot::{PodTotals, WorkloadSample};
use crate::{block, net, reclaim, rxpath, sched, tcp, vfs};

/// The counters of one cgroup in one domain.
pub(crate) trait Charge: Send {
    /// Whether nothing was counted.
    fn is_idle(&self) -> bool;
    fn add_to(&self, workload: &mut WorkloadSample);

    /// Whether the totals of pods have a part for it.
    fn is_of_pods(&self) -> bool {
        true
    }

    fn add_to_pod(&self, _pod: &mut PodTotals) {}
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

    fn is_of_pods(&self) -> bool {
        false
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

/// There are no histograms, so nothing is added to the pod.
impl Charge for NetStats {
    fn is_idle(&self) -> bool {
        *self == Self::ZERO
    }

    fn add_to(&self, workload: &mut WorkloadSample) {
        net::accumulate(workload.net.get_or_insert_default(), self);
    }

    fn is_of_pods(&self) -> bool {
        false
    }
}

impl Charge for DropStats {
    fn is_idle(&self) -> bool {
        self.packets == 0
    }

    fn add_to(&self, workload: &mut WorkloadSample) {
        net::accumulate_drops(workload.net.get_or_insert_default(), self);
    }

    fn is_of_pods(&self) -> bool {
        false
    }
}

impl Charge for RxpathStats {
    fn is_idle(&self) -> bool {
        rxpath::is_idle(self)
    }

    fn add_to(&self, workload: &mut WorkloadSample) {
        rxpath::accumulate(workload.rxpath.get_or_insert_default(), self);
    }

    fn add_to_pod(&self, pod: &mut PodTotals) {
        rxpath::accumulate(&mut pod.rxpath, self);
    }
}

/// OOM kills that are known from a cgroup's removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LastKills(pub(super) u64);

impl LastKills {
    #[cfg(test)]
    pub(crate) const fn of(kills: u64) -> Self {
        Self(kills)
    }
}

impl Charge for LastKills {
    fn is_idle(&self) -> bool {
        self.0 == 0
    }

    fn add_to(&self, workload: &mut WorkloadSample) {
        *workload.memory.get_or_insert_default().oom_kills.get_or_insert(0) += self.0;
    }

    fn is_of_pods(&self) -> bool {
        false
    }
}

impl Charge for ReclaimStats {
    fn is_idle(&self) -> bool {
        self.reclaims == 0
    }

    fn add_to(&self, workload: &mut WorkloadSample) {
        reclaim::accumulate(workload.reclaim.get_or_insert_default(), self);
    }

    fn is_of_pods(&self) -> bool {
        false
    }
}
