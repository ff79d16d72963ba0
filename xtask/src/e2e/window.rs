//! On-CPU time over a window: the agent's count against the kernel's accounting of the same containers'
//! cgroups.

use std::collections::BTreeMap;

use anyhow::{Context, Result};

use super::kernel::Hierarchy;
use super::pods::CRASHING;
use super::rig::Rig;
use super::samples::{Workload, by_workload};
use super::{agent, report, truth};

/// The kernel updates a running task's time at its ticks, at least 100 a second.
const TICK: f64 = 0.01;

type Times = BTreeMap<Workload, f64>;

/// The start of a window: a scrape between two reads of the kernel's files.
#[derive(Debug)]
pub(super) struct Window {
    containers: BTreeMap<Workload, u32>,
    outer: Times,
    ours: Times,
    inner: Times,
}

impl Window {
    pub(super) fn open(rig: &mut Rig) -> Result<Self> {
        let containers = lasting(rig)?;
        let outer = kernel_times(&containers)?;
        let ours = by_workload(&agent::scrape()?, truth::ON_CPU);
        let inner = kernel_times(&containers)?;
        Ok(Self { containers, outer, ours, inner })
    }

    /// Checks each container's time in the window against the kernel's.
    pub(super) fn close(self) -> Result<String> {
        let inner = kernel_times(&self.containers)?;
        let ours = by_workload(&agent::scrape()?, truth::ON_CPU);
        let outer = kernel_times(&self.containers)?;
        let (mut faults, mut seen) = (Vec::new(), Vec::new());
        for workload in self.containers.keys() {
            let since = |now: &Times, then: &Times| {
                let value = |times: &Times| times.get(workload).copied().unwrap_or_default();
                value(now) - value(then)
            };
            let ours = since(&ours, &self.ours);
            let (least, most) = (since(&inner, &self.inner) - TICK, since(&outer, &self.outer) + TICK);
            if ours < least || ours > most {
                faults.push(format!("{workload} had {ours:.4} s, its cgroup {least:.4} to {most:.4} s"));
            }
            seen.push(ours);
        }
        seen.sort_by(f64::total_cmp);
        let (least, most) = (seen.first().context("no container")?, seen.last().context("no container")?);
        let text = format!("{} containers, from {least:.3} to {most:.3} s", self.containers.len());
        report::none_of(&faults, text)
    }
}

/// Containers of which there has been only one instance, with its first process: their series cover a single
/// cgroup.
pub(super) fn lasting(rig: &mut Rig) -> Result<BTreeMap<Workload, u32>> {
    let now = rig.look()?;
    let of = |workload: &Workload| now.containers.iter().filter(|c| c.workload() == *workload).count();
    let named = now.containers.iter().filter(|container| container.name.is_some());
    let only = named.filter(|container| of(&container.workload()) == 1 && container.pod != CRASHING);
    Ok(only.filter_map(|container| Some((container.workload(), container.pid?))).collect())
}

/// The kernel's CPU times, in seconds.
pub(super) fn kernel_times(containers: &BTreeMap<Workload, u32>) -> Result<Times> {
    let hierarchy = Hierarchy::of_cpu_time()?;
    let time = |(workload, pid): (&Workload, &u32)| {
        Ok((workload.clone(), hierarchy.usage_of_process(*pid)? as f64 / 1e9))
    };
    containers.iter().map(time).collect()
}
