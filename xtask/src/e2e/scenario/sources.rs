//! The same labels from each of the other sources alone: the kubelet without an API server, the CRI, and the
//! runtime's files.

use anyhow::{Context, Result, bail};

use super::{labels, views};
use crate::e2e::agent::{self, Access, Agent};
use crate::e2e::cluster::{NODE, kubelet};
use crate::e2e::pods::{self, HOME};
use crate::e2e::report::Report;
use crate::e2e::rig::Rig;
use crate::e2e::samples::Workload;
use crate::e2e::scraper::Scraper;
use crate::e2e::truth::Ids;
use crate::e2e::wait;

const NAME: &str = "sources";

pub(super) fn run(rig: &mut Rig, report: &mut Report) -> Result<()> {
    kubelet_alone(rig, report)?;
    for (sources, name) in [(agent::CRI, "the CRI"), (agent::RUNTIME, "the runtime's files")] {
        let agent = Agent::start(&rig.access, sources)?;
        let scraper = Scraper::start(labels::SCRAPE_PAUSE);
        right(rig, report, &scraper, (name, Ids::Never));
        if sources == agent::RUNTIME {
            report.check(
                NAME,
                &format!("from {name}: labels are said to be unknown"),
                no_labels(&rig.access),
            );
        } else {
            selected(rig, report, name);
        }
        drop(scraper);
        agent.stop()?;
    }
    Ok(())
}

fn right(rig: &mut Rig, report: &mut Report, scraper: &Scraper, (name, ids): (&str, Ids)) {
    let what = format!("from {name}: every running container has its series, no series is wrong");
    report.check(NAME, &what, labels::settle(rig, ids));
    let what = format!("from {name}: a container that crashes over and over is one series");
    report.check(NAME, &what, labels::crashes(rig, scraper));
    let what = format!("from {name}: no counter went backwards, no scrape failed");
    report.check(NAME, &what, labels::course(scraper));
}

fn selected(rig: &Rig, report: &mut Report, name: &str) {
    report.check(NAME, &format!("from {name}: pods by their labels"), views::by_labels(&rig.access));
}

fn no_labels(access: &Access) -> Result<String> {
    match access.ask(&["top", "-l", "app", "--once"]) {
        Err(error) if views::unknown(&error) => Ok("as an error".to_owned()),
        other => bail!("{other:?}"),
    }
}

fn kubelet_alone(rig: &mut Rig, report: &mut Report) -> Result<()> {
    // The kubelet asks the API server about each client's token and caches the answer, so it has to see the
    // agent before the API server goes down.
    let known = Agent::start(&rig.access, agent::KUBELET)?;
    labels::settle(rig, Ids::Never).context("the kubelet as the source, with an API server")?;
    known.stop()?;

    rig.cluster.kill_api();
    let agent = Agent::start(&rig.access, agent::KUBELET)?;
    let scraper = Scraper::start(labels::SCRAPE_PAUSE);
    right(rig, report, &scraper, ("the kubelet, no API server", Ids::InOwnPod));
    report.check(NAME, "from the kubelet, no API server: a pod that is new", late_pod(rig));
    selected(rig, report, "the kubelet, no API server");
    drop(scraper);
    agent.stop()?;
    rig.cluster.start_api()
}

/// A static pod needs only the kubelet.
fn late_pod(rig: &mut Rig) -> Result<String> {
    let (name, manifest) = pods::late_static_pod();
    let workload = Workload::new(HOME, &format!("{name}-{NODE}"), "main");
    kubelet::add_static_pod(name, &manifest)?;
    wait::until("the new pod runs", || Ok(rig.look()?.is_running(&workload).then_some(())))?;
    let seen = labels::settle(rig, Ids::InOwnPod);
    kubelet::remove_static_pod(name)?;
    wait::until("the new pod has ended", || Ok((!rig.look()?.is_running(&workload)).then_some(())))?;
    seen
}
