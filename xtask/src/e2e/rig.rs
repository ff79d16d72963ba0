//! The inner process: starts the cluster, runs the scenarios one after the other, and judges the results.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::agent::{self, Access, Agent};
use super::cluster::{Cluster, NODE, kubelet};
use super::pods::{self, NAMESPACES};
use super::report::Report;
use super::scenario::Scenario;
use super::{Args, kube, places, processes, truth, wait};
use crate::say;

/// The environment that scenarios work in.
#[derive(Debug)]
pub(super) struct Rig {
    pub(super) cluster: Cluster,
    /// How an agent reaches its sources.
    pub(super) access: Access,
    /// Everything that was seen running so far, to know which series may exist.
    pub(super) history: truth::History,
    /// How long the scenario `churn` lasts.
    pub(super) churn: Duration,
}

pub(super) fn run(args: &Args) -> Result<()> {
    processes::end_with_parent();
    let cluster = Cluster::start().context("the cluster does not come up")?;
    let agent = args.agent.clone().context("the supervisor names the agent")?;
    let access = Access::grant(agent).context("making the agent's account")?;
    let churn = Duration::from_secs(args.churn_seconds);
    let mut rig = Rig { cluster, access, history: truth::History::default(), churn };
    rig.populate()?;
    let mut report = Report::default();
    for scenario in Scenario::chosen(&args.scenarios) {
        let start = Instant::now();
        say::step(format_args!("Scenario {}: {}.", scenario.name(), scenario.about()));
        let ended = scenario.run(&mut rig, &mut report);
        report.check(&scenario.name(), "went to its end", ended.map(|()| took(start)));
    }
    let judged = report.judge();
    if args.keep {
        keep(&rig)?;
    }
    judged
}

impl Rig {
    /// Starts the pods that live as long as the rig.
    fn populate(&mut self) -> Result<()> {
        let start = Instant::now();
        for namespace in NAMESPACES {
            kube::namespace(namespace)?;
        }
        for pod in pods::residents() {
            kube::create_pod(&pod)?;
        }
        let (name, manifest) = pods::static_pod();
        kubelet::add_static_pod(name, &manifest)?;
        let wanted = pods::residents_running();
        wait::until("every pod runs", || {
            let found = self.look()?;
            Ok(wanted.iter().all(|workload| found.is_running(workload)).then_some(()))
        })?;
        say::step(format_args!("The pods run after {:.1} s.", start.elapsed().as_secs_f64()));
        Ok(())
    }

    /// Asks the runtime for the containers that run now.
    pub(super) fn look(&mut self) -> Result<truth::Now> {
        let now =
            truth::Now { time: processes::since_boot(), containers: self.cluster.runtime.containers()? };
        self.history.note(&now);
        Ok(now)
    }
}

fn took(start: Instant) -> String {
    format!("took {:.1} s", start.elapsed().as_secs_f64())
}

/// Keeps the rig up until Ctrl-C, which ends this process with all others.
fn keep(rig: &Rig) -> Result<()> {
    let _agent = Agent::start(&rig.access, agent::AUTO)?;
    let pid = std::process::id();
    say::step(format_args!(
        "Cluster and agent stay up until Ctrl-C. A shell beside them: nsenter --net --mount --target {pid}"
    ));
    say::step(format_args!(
        "There, {} kubectl --kubeconfig {} get pods -A -o wide shows the pods of {NODE}.",
        places::laboratory().join("kubeparts/kubeparts").display(),
        super::pki::file("admin", "kubeconfig").display(),
    ));
    loop {
        std::thread::park();
    }
}
