//! `sysprobe check`: the facts, the plan, what the kernel takes of it, and what a running agent does; for
//! people or as JSON. Attaches nothing and changes nothing.

mod text;
mod trial;

use std::io::{self, Write};
use std::path::Path;

use anyhow::Context;
use schemars::JsonSchema;
use serde::Serialize;

use crate::client::Client;
use crate::config::Config;
use crate::host::known_bugs::{self, KnownBug};
use crate::host::{Facts, Lack};
use crate::plan::Plan;
use crate::show::{Source, args::Output};
use crate::snapshot::{DomainState, PodSourceSample, Snapshot};
use trial::Trial;

pub const HELP: &str = "What will the agent do on this host, and what can it not do, and why? Nothing is changed: \
    the kernel verifies the programs, and they are removed again.\n\n\
    Example: why a domain is off, for scripts\n  \
    sysprobe check -o json | jq '.plan.domains'";

#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub output: Output,
    /// Whether the kernel is asked to verify the programs.
    pub load: bool,
}

/// The version of the JSON form; it changes when a field goes or changes its meaning.
pub(crate) const VERSION: u32 = 1;

#[derive(JsonSchema, Serialize)]
pub(crate) struct Report {
    /// Of the form; it changes when a field goes or changes its meaning.
    version: u32,
    /// What this host offers.
    facts: Facts,
    /// Rights that the agent would use here and this process does not have.
    lacks: Vec<Lack>,
    /// What is known to be wrong with this kernel and concerns our numbers.
    known_bugs: Vec<&'static KnownBug>,
    /// What an agent would do here.
    plan: Plan,
    /// What the kernel said; `None` if it was not asked.
    trials: Option<Vec<Trial>>,
    agent: Agent,
}

/// The agent on the configured socket.
#[derive(Debug, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
enum Agent {
    Running {
        domains: Vec<DomainState>,
        pod_sources: Vec<PodSourceSample>,
    },
    None,
    /// There is one, but what it does is not known, for this reason.
    Silent(String),
}

pub fn run(config: &Config, options: Options) -> anyhow::Result<()> {
    let facts = Facts::collect(config);
    let mut plan = Plan::new(&facts, config);
    let trials = options.load.then(|| trial::of_plan(&facts, &plan));
    if let Some(trials) = &trials {
        plan = plan.settled(|domain| trial::first_taken(trials, domain));
    }
    let agent = ask(&config.socket)?;
    let report = Report::new(facts, plan, trials, agent);
    let mut out = io::stdout().lock();
    match options.output {
        Output::Json => {
            serde_json::to_writer_pretty(&mut out, &report)?;
            writeln!(out)?;
        }
        Output::Table | Output::Wide => text::write(&mut out, &report, &config.socket)?,
    }
    Ok(())
}

impl Report {
    fn new(facts: Facts, plan: Plan, trials: Option<Vec<Trial>>, agent: Agent) -> Self {
        let lacks = facts.privilege.lacks(&facts.kernel).map(Lack::from).collect();
        let known_bugs = known_bugs::of(&facts).collect();
        Self { version: VERSION, facts, lacks, known_bugs, plan, trials, agent }
    }
}

fn ask(socket: &Path) -> anyhow::Result<Agent> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().context("starting the async runtime")?;
    let asked = runtime.block_on(async {
        let Some(mut client) = Client::connect(socket).await? else { return Ok(None) };
        client.next().await.map(Some)
    });
    Ok(match asked {
        Ok(Some(Snapshot { domains, agent, .. })) => {
            Agent::Running { domains, pod_sources: agent.pod_sources }
        }
        Ok(None) => Agent::None,
        Err(error) => Agent::Silent(format!("{error:#}")),
    })
}

#[cfg(test)]
mod tests;
