//! `sysprobe check`: reports the host's facts, the plan, the verifier's verdict on it, and the state of a
//! running agent, as text or JSON. Attaches nothing and changes nothing.

mod text;
mod trial;

use std::io::{self, Write};
use std::path::Path;

use anyhow::Context;
use schemars::JsonSchema;
use serde::Serialize;

use crate::agent::client::Client;
use crate::cli::args::Output;
use crate::config::Config;
use crate::host::known_bugs::{self, KnownBug};
use crate::host::{Facts, Lack};
use crate::plan::Plan;
use crate::snapshot::source::Source;
use crate::snapshot::{DomainState, PodSourceSample, Snapshot};
use trial::Trial;

pub const HELP: &str = "What will the agent do on this host, and what can it not do, and why? Nothing is \
    changed: the kernel verifies the programs, and they are removed again.\n\n\
    Example: what the configuration or the host turns off, for scripts\n  \
    sysprobe check -o json | jq '.plan.domains[] | select(.decision.off)'";

#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub output: Output,
    /// Whether the kernel is asked to verify the programs.
    pub load: bool,
}

/// The version of the JSON form; it changes when a field is removed or changes its meaning.
pub(crate) const VERSION: u32 = 1;

#[derive(JsonSchema, Serialize)]
pub(crate) struct Report {
    /// Version of this document format. It changes when a field is removed or changes its meaning.
    version: u32,
    /// Facts about this host and this process.
    facts: Facts,
    /// Capabilities that the agent would use here and this process lacks.
    lacks: Vec<Lack>,
    /// Known bugs of this kernel that affect the agent's metrics.
    known_bugs: Vec<&'static KnownBug>,
    /// What an agent would do here, with this configuration.
    plan: Plan,
    /// The kernel's verdict on each attach mode in the plan. `None` with `--no-load`, which does not ask the
    /// kernel.
    trials: Option<Vec<Trial>>,
    /// State of the agent on the configured socket.
    agent: Agent,
}

/// State of the agent on the configured socket.
#[derive(Debug, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
enum Agent {
    /// An agent is running.
    Running {
        /// State of each of the agent's domains.
        domains: Vec<DomainState>,
        /// State of each source of pod names that the agent asks.
        pod_sources: Vec<PodSourceSample>,
    },
    /// No agent is running.
    None,
    /// The agent cannot be queried, for this reason.
    Silent(String),
}

pub fn run(config: &Config, options: Options) -> anyhow::Result<()> {
    let facts = Facts::collect(config);
    let mut plan = Plan::new(&facts, config);
    let trials = options.load.then(|| trial::of_plan(&facts, &plan));
    if let Some(trials) = &trials {
        plan = plan.finalized(|domain| trial::first_taken(trials, domain));
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
