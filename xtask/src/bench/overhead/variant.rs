//! The thing that runs beside a load: nothing, the agent, one of another version, another tool, or empty
//! programs.

use anyhow::Result;

use super::agent::{self, Agent, Off};
use super::floor::{self, Floor};
use super::peer::Peer;
use super::plan::Choice;
use super::process::Process;

#[derive(Debug)]
pub(super) enum Variant {
    /// Compares parts without any difference, to show how much the machine varies by itself.
    Nothing,
    Agent(Choice),
    /// An agent of another version, with the default configuration.
    Before(Agent),
    Floor(Floor),
    Peer(Peer),
}

/// A running variant; stopped when it is dropped.
#[derive(Debug)]
pub(super) enum Running {
    Nothing,
    Agent(agent::Running),
    Other(Process),
}

impl Variant {
    pub(super) fn title(&self) -> String {
        match self {
            Self::Nothing => "A against A".to_owned(),
            Self::Agent(choice) => choice.title.clone(),
            Self::Before(_) => "before".to_owned(),
            Self::Floor(_) => floor::TITLE.to_owned(),
            Self::Peer(peer) => peer.title(),
        }
    }

    /// The agent whose programs are compared, if the variant is one with the default configuration.
    pub(super) fn of_programs<'a>(&'a self, agent: &'a Agent) -> Option<&'a Agent> {
        match self {
            Self::Agent(choice) => choice.off.is_empty().then_some(agent),
            Self::Before(other) => Some(other),
            Self::Nothing | Self::Floor(_) | Self::Peer(_) => None,
        }
    }

    /// Starts the variant and waits until it is ready.
    pub(super) fn start(&self, agent: &Agent) -> Result<Running> {
        match self {
            Self::Nothing => Ok(Running::Nothing),
            Self::Agent(choice) => agent.start(&choice.off).map(Running::Agent),
            Self::Before(other) => other.start(&[]).map(Running::Agent),
            Self::Floor(floor) => floor.start().map(Running::Other),
            Self::Peer(peer) => peer.start().map(Running::Other),
        }
    }
}

impl Running {
    /// Stops the variant; returns the agent's domains that were not active at the end.
    pub(super) fn stop(self) -> Result<Vec<Off>> {
        match self {
            Self::Nothing => Ok(Vec::new()),
            Self::Agent(mut agent) => agent.off(),
            Self::Other(mut process) => process.still_runs().map(|()| Vec::new()),
        }
    }
}
