//! How long it takes from the start of a container's first process to its first series with the right labels.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::json;

use crate::e2e::agent::{self, Agent, Sources};
use crate::e2e::pods::{self, container};
use crate::e2e::report::Report;
use crate::e2e::rig::Rig;
use crate::e2e::samples::Workload;
use crate::e2e::scraper::Scraper;
use crate::e2e::{kube, wait};

const NAME: &str = "first";
const NAMESPACE: &str = "e2e-first";
/// The number of pods with the default sources, and with each source alone.
const PODS: usize = 10;
const PODS_ALONE: usize = 4;

/// The limit in seconds for the default sources. A single source has no limit: the kubelet checks its
/// containers only once a second.
const LIMIT: f64 = 1.0;

/// Short compared with the times that are measured.
const SCRAPE_PAUSE: Duration = Duration::from_millis(10);

pub(super) fn run(rig: &mut Rig, report: &mut Report) -> Result<()> {
    kube::namespace(NAMESPACE)?;
    for sources in [agent::AUTO, agent::KUBERNETES, agent::KUBELET, agent::CRI, agent::RUNTIME] {
        let agent = Agent::start(&rig.access, sources)?;
        let scraper = Scraper::start(SCRAPE_PAUSE);
        let what = format!("from the start of a container to its first series, with {}", sources.join(", "));
        report.check(NAME, &what, measure(rig, &scraper, sources));
        drop(scraper);
        agent.stop()?;
        kube::delete_pods(NAMESPACE)?;
    }
    Ok(())
}

fn measure(rig: &mut Rig, scraper: &Scraper, sources: Sources) -> Result<String> {
    let mut times = Vec::new();
    let pods = if sources == agent::AUTO { PODS } else { PODS_ALONE };
    for number in 0..pods {
        let name = format!("{}-{number}", sources.join("-"));
        let pod = pods::pod(NAMESPACE, &name, &[container("main", 1, &json!({}))]);
        kube::create_pod(&pod)?;
        let workload = Workload::new(NAMESPACE, &name, "main");
        let seen = wait::until("the pod has series", || Ok(scraper.seen().first.get(&workload).copied()))?;
        times.push(seen - started(rig, &workload)?);
    }
    times.sort_by(f64::total_cmp);
    let longest = times.last().context("no pod was measured")?;
    if sources == agent::AUTO && *longest > LIMIT {
        bail!("up to {longest:.2} s: {times:.2?}");
    }
    Ok(format!("{pods} pods, {:.2} s in the middle, {longest:.2} s at most", times[pods / 2]))
}

/// When the container's first process started, in seconds since boot. Its series may appear before the
/// runtime reports that it runs.
fn started(rig: &mut Rig, workload: &Workload) -> Result<f64> {
    wait::until("the runtime knows the container", || {
        let now = rig.look()?;
        let container = now.containers.iter().find(|container| container.workload() == *workload);
        Ok(container.and_then(|container| container.started))
    })
}
