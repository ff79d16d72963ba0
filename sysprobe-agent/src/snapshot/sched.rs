//! The scheduler's part of a snapshot.

use serde::{Deserialize, Serialize};

use super::{HistogramSample, LoadSample, ThreadsSample, Workload};

/// The scheduler's totals of one workload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchedSample {
    /// Waits for a CPU: from runnable to running.
    pub wait: HistogramSample,
    pub on_cpu_ns: u64,
    pub voluntary_switches: u64,
    pub involuntary_switches: u64,
    /// What occupied the CPU while it waited; the parts sum to the sum of `wait`. `None` if it never waited,
    /// or if the programs cannot tell.
    pub causes: Option<CausesSample>,
    /// The culprits of these waits.
    pub blame: BlameSample,
    /// As of the last task scan; `None` if it had no threads then, or without a scan.
    pub threads: Option<ThreadsSample>,
    /// Over all task scans in a row in which it had threads.
    pub load: Option<LoadSample>,
}

/// How long a cgroup with a quota was throttled at a time, on each CPU separately.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThrottleSample {
    pub lengths: HistogramSample,
    /// Number of threads that were throttled, summed over all throttles.
    pub threads: u64,
}

/// The causes of a workload's waits, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CausesSample {
    /// Its CPU quota was used up.
    pub throttled_ns: u64,
    /// Other tasks of the same pod ran or, outside of pods, of the same workload.
    pub same_pod_ns: u64,
    pub other_pod_ns: u64,
    /// A workload outside of pods ran: a systemd unit or a cgroup.
    pub system_ns: u64,
    pub kernel_ns: u64,
    /// Interrupts and softirqs.
    pub interrupt_ns: u64,
    /// The CPU idled: the task was runnable and had not been switched to yet.
    pub idle_ns: u64,
    /// Time before what the kernel side remembers, and time of tasks that it did not see.
    pub unknown_ns: u64,
}

/// The other pods and services that ran while a workload waited, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlameSample {
    /// The worst culprits, in the order of their names.
    pub culprits: Vec<(Culprit, u64)>,
    /// Since when each of them is counted by name, in milliseconds since the Unix epoch. Empty before version
    /// 14, and in a window.
    #[serde(default)]
    pub created_ms: Vec<u64>,
    /// All the others.
    pub other_ns: u64,
}

/// A pod, or a workload outside of pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Culprit {
    pub namespace: String,
    pub pod: String,
    /// Empty for a pod.
    pub container: String,
}

impl Workload {
    /// The culprit that its interference is attributed to: for a container, the whole pod.
    #[must_use]
    pub fn as_culprit(&self) -> Culprit {
        let Self { namespace, pod, container } = self.clone();
        let container = if pod.is_empty() { container } else { String::new() };
        Culprit { namespace, pod, container }
    }
}

impl CausesSample {
    /// By the values of the `cause` label.
    #[must_use]
    pub const fn each(&self) -> [(&'static str, u64); 8] {
        [
            ("throttled", self.throttled_ns),
            ("same_pod", self.same_pod_ns),
            ("other_pod", self.other_pod_ns),
            ("system", self.system_ns),
            ("kernel", self.kernel_ns),
            ("interrupt", self.interrupt_ns),
            ("idle", self.idle_ns),
            ("unknown", self.unknown_ns),
        ]
    }

    #[must_use]
    pub fn total_ns(&self) -> u64 {
        self.each().iter().map(|(_, ns)| ns).sum()
    }
}

impl SchedSample {
    /// The increase in a window. The agent starts these totals at zero, so for a workload that is new to it
    /// they belong to the window. Totals restart together: if one went backwards, all of them count as new.
    #[must_use]
    pub fn in_window(earlier: Option<&Self>, later: &Self) -> Self {
        earlier.and_then(|earlier| later.since(earlier)).unwrap_or_else(|| later.clone())
    }

    /// Adds another workload's totals.
    pub fn add(&mut self, other: &Self) {
        self.wait.add(&other.wait);
        self.on_cpu_ns += other.on_cpu_ns;
        self.voluntary_switches += other.voluntary_switches;
        self.involuntary_switches += other.involuntary_switches;
        if let Some(causes) = &other.causes {
            self.causes.get_or_insert_default().add(causes);
        }
        self.blame.add(&other.blame);
    }

    /// The increase since `earlier`; `None` if a total went backwards: then the agent has restarted and all
    /// totals are new.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Option<Self> {
        if self.wait.sum_ns < earlier.wait.sum_ns {
            return None;
        }
        let causes = match (self.causes, earlier.causes) {
            (Some(later), Some(earlier)) => Some(later.since(&earlier)?),
            (later, _) => later,
        };
        Some(Self {
            wait: self.wait.since(&earlier.wait),
            on_cpu_ns: self.on_cpu_ns.checked_sub(earlier.on_cpu_ns)?,
            voluntary_switches: self.voluntary_switches.checked_sub(earlier.voluntary_switches)?,
            involuntary_switches: self.involuntary_switches.checked_sub(earlier.involuntary_switches)?,
            causes,
            blame: self.blame.since(&earlier.blame)?,
            threads: self.threads,
            load: self.load,
        })
    }
}

impl CausesSample {
    fn add(&mut self, other: &Self) {
        self.throttled_ns += other.throttled_ns;
        self.same_pod_ns += other.same_pod_ns;
        self.other_pod_ns += other.other_pod_ns;
        self.system_ns += other.system_ns;
        self.kernel_ns += other.kernel_ns;
        self.interrupt_ns += other.interrupt_ns;
        self.idle_ns += other.idle_ns;
        self.unknown_ns += other.unknown_ns;
    }

    fn since(self, earlier: &Self) -> Option<Self> {
        Some(Self {
            throttled_ns: self.throttled_ns.checked_sub(earlier.throttled_ns)?,
            same_pod_ns: self.same_pod_ns.checked_sub(earlier.same_pod_ns)?,
            other_pod_ns: self.other_pod_ns.checked_sub(earlier.other_pod_ns)?,
            system_ns: self.system_ns.checked_sub(earlier.system_ns)?,
            kernel_ns: self.kernel_ns.checked_sub(earlier.kernel_ns)?,
            interrupt_ns: self.interrupt_ns.checked_sub(earlier.interrupt_ns)?,
            idle_ns: self.idle_ns.checked_sub(earlier.idle_ns)?,
            unknown_ns: self.unknown_ns.checked_sub(earlier.unknown_ns)?,
        })
    }
}

impl BlameSample {
    fn add(&mut self, other: &Self) {
        for (culprit, ns) in &other.culprits {
            match self.culprits.iter_mut().find(|(known, _)| known == culprit) {
                Some((_, sum)) => *sum += ns,
                None => self.culprits.push((culprit.clone(), *ns)),
            }
        }
        self.culprits.sort();
        self.created_ms.clear();
        self.other_ns += other.other_ns;
    }

    /// A culprit starts at zero whenever it is named. If it was not named before, its total is new. So is a
    /// total that went backwards: the culprit lost its name and got it back.
    fn since(&self, earlier: &Self) -> Option<Self> {
        let before = |culprit: &Culprit| {
            earlier.culprits.iter().find(|(other, _)| other == culprit).map_or(0, |(_, ns)| *ns)
        };
        let added = |(culprit, ns): &(Culprit, u64)| {
            (culprit.clone(), ns.checked_sub(before(culprit)).unwrap_or(*ns))
        };
        Some(Self {
            culprits: self.culprits.iter().map(added).filter(|(_, ns)| *ns > 0).collect(),
            created_ms: Vec::new(),
            other_ns: self.other_ns.checked_sub(earlier.other_ns)?,
        })
    }
}

#[cfg(test)]
mod tests;
