//! What the runtime reports as running, and what it implies for the agent's series. No side effects.

use std::collections::{BTreeMap, BTreeSet};

use super::cluster::Container;
use super::samples::{Sample, Workload, by_workload};

/// The container name of a pod's sandbox in the agent's series.
pub(super) const SANDBOX: &str = "POD";

/// Families that every running container has.
pub(super) const FAMILIES: [&str; 3] =
    ["sysprobe_sched_context_switches_total", ON_CPU, "sysprobe_cpu_usage_seconds_total"];

/// Families that every pod with a running container has: histograms cover whole pods and have an empty
/// `container`.
pub(super) const POD_FAMILIES: [&str; 1] = ["sysprobe_sched_wakeup_latency_seconds_count"];

pub(super) const ON_CPU: &str = "sysprobe_sched_on_cpu_seconds_total";
pub(super) const BLAME: &str = "sysprobe_sched_blame_seconds_total";

/// The share of all on-CPU time that may be charged to `unknown`.
const UNKNOWN: f64 = 0.001;

/// Seconds after which an agent must know a container, whatever its sources: the kubelet checks its
/// containers once a second, and the agent asks it no more often than that.
const KNOWN_AFTER: f64 = 3.0;

/// The containers at one point in time.
#[derive(Clone, Debug, Default)]
pub(super) struct Now {
    /// In seconds since boot.
    pub(super) time: f64,
    pub(super) containers: Vec<Container>,
}

/// Everything that was seen so far.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    workloads: BTreeSet<Workload>,
    /// Ids of containers and pods, with the namespace and name of the pod.
    ids: BTreeMap<String, (String, String)>,
}

/// Whether a container's id may stand in for its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ids {
    Never,
    /// In its own pod only. Without an API server, the kubelet does not report the ids of containers that it
    /// has started since.
    InOwnPod,
}

impl Container {
    pub(super) fn workload(&self) -> Workload {
        Workload::new(&self.namespace, &self.pod, self.name.as_deref().unwrap_or(SANDBOX))
    }
}

impl Now {
    /// Running containers, without sandboxes.
    pub(super) fn running(&self) -> BTreeSet<Workload> {
        let running = self.containers.iter().filter(|container| container.pid.is_some());
        running.filter(|container| container.name.is_some()).map(Container::workload).collect()
    }

    pub(super) fn is_running(&self, workload: &Workload) -> bool {
        self.running().contains(workload)
    }

    /// Containers that had run for a while and still run later. The others have just started, or have ended.
    pub(super) fn throughout(&self, later: &Self) -> BTreeSet<Workload> {
        let known = self
            .containers
            .iter()
            .filter(|container| container.started.is_some_and(|started| self.time - started > KNOWN_AFTER));
        let known: BTreeSet<_> = known.map(|container| (&container.id, container.pid)).collect();
        let stayed =
            later.containers.iter().filter(|container| known.contains(&(&container.id, container.pid)));
        stayed.filter(|container| container.name.is_some()).map(Container::workload).collect()
    }
}

impl History {
    pub(super) fn note(&mut self, now: &Now) {
        for container in &now.containers {
            self.workloads.insert(container.workload());
            self.workloads.insert(Workload::new(&container.namespace, &container.pod, SANDBOX));
            for id in [&container.id, &container.uid] {
                let pod = (container.namespace.clone(), container.pod.clone());
                self.ids.insert(id.clone(), pod);
            }
        }
    }

    /// Faults in the labels of a scrape during which these containers ran.
    pub(super) fn faults(
        &self,
        samples: &[Sample],
        throughout: &BTreeSet<Workload>,
        ids: Ids,
    ) -> Vec<String> {
        let mut found = Vec::new();
        let pods: BTreeSet<_> = throughout.iter().map(Workload::whole_pod).collect();
        let of_containers = FAMILIES.iter().map(|family| (family, throughout));
        for (family, workloads) in of_containers.chain(POD_FAMILIES.iter().map(|family| (family, &pods))) {
            let has = by_workload(samples, family);
            let missing = workloads.iter().filter(|workload| !has.contains_key(*workload));
            found.extend(missing.map(|workload| format!("{workload} has no {family}")));
        }
        let labels: BTreeSet<Workload> = samples.iter().filter_map(Sample::workload).collect();
        found.extend(labels.iter().filter_map(|workload| self.fault(workload, ids)));
        found.extend(unknown_fault(samples));
        found
    }

    /// The fault in one set of labels, if there is one.
    fn fault(&self, workload: &Workload, ids: Ids) -> Option<String> {
        let pod = (workload.namespace.clone(), workload.pod.clone());
        if ids == Ids::InOwnPod && self.ids.get(&workload.container) == Some(&pod) {
            return None;
        }
        let is_pod = !workload.namespace.is_empty() || !workload.pod.is_empty();
        let is_whole = workload.container.is_empty() && self.ids.values().any(|known| *known == pod);
        if is_pod && !is_whole && !self.workloads.contains(workload) {
            return Some(format!("there is no {workload}"));
        }
        let id = self.ids.keys().find(|id| workload.container.contains(id.as_str()))?;
        Some(format!("{workload} is labelled with the id {id}"))
    }
}

pub(super) fn is_of_pod(sample: &Sample) -> bool {
    sample.workload().is_some_and(|workload| !workload.pod.is_empty())
}

/// The share of on-CPU time that is charged to `unknown`.
pub(super) fn unknown_share(samples: &[Sample]) -> f64 {
    let all: f64 = by_workload(samples, ON_CPU).values().sum();
    unknown_time(samples) / all
}

/// The on-CPU time that is charged to `unknown`, in seconds.
pub(super) fn unknown_time(samples: &[Sample]) -> f64 {
    by_workload(samples, ON_CPU).get(&Workload::own("unknown")).copied().unwrap_or_default()
}

fn unknown_fault(samples: &[Sample]) -> Option<String> {
    let share = unknown_share(samples);
    (share > UNKNOWN).then(|| format!("{:.2} % of the time on CPU is unknown", share * 100.0))
}

/// Counter series that became smaller from one scrape to the next.
pub(super) fn backwards(before: &BTreeMap<String, f64>, after: &[Sample]) -> Vec<String> {
    let counters = after.iter().filter(|sample| sample.is_counter());
    let smaller = counters.filter_map(|sample| {
        let series = sample.series();
        let was = *before.get(&series)?;
        (sample.value < was).then(|| format!("{series} went from {was} to {}", sample.value))
    });
    smaller.collect()
}

#[cfg(test)]
mod tests;
