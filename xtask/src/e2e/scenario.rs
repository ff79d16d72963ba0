//! The scenarios on the cluster. Each one starts its own agents and leaves the cluster as it found it.

mod blame;
mod burst;
mod chart;
mod churn;
mod cluster;
mod first;
mod fleet;
mod labels;
mod outage;
mod screens;
mod sources;
mod views;

use anyhow::Result;
use clap::ValueEnum;

use super::report::Report;
use super::rig::Rig;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scenario {
    /// Pods of every kind run, in the cgroups that Kubernetes gives them
    Cluster,
    /// Labels from the API server
    Labels,
    /// Labels from the kubelet, the CRI and the runtime's files, each alone
    Sources,
    /// Time from the start of a container to its first series
    First,
    /// What makes a pod wait, according to `sysprobe blame`
    Blame,
    /// Every pod in every table of the command line
    Views,
    /// The chart, the image, and a Prometheus that scrapes the agent
    Chart,
    /// Writes the pictures of docs/screens; runs only if it is named
    Screens,
    /// The API server goes down, comes back without its history, and is busy
    Outage,
    /// The clients of 500 agents at one API server
    Fleet,
    /// Pods that live for 200 ms, ten a second
    Burst,
    /// 500 pods that live for 15 s, again and again
    Churn,
}

impl Scenario {
    /// The chosen scenarios in running order: those that stop parts of the cluster come last.
    pub(super) fn chosen(names: &[Self]) -> Vec<Self> {
        Self::value_variants()
            .iter()
            .copied()
            .filter(|scenario| names.contains(scenario) || names.is_empty() && *scenario != Self::Screens)
            .collect()
    }

    /// The name on the command line.
    pub(super) fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// The description in the command line's help.
    pub(super) fn about(self) -> String {
        let help = self.to_possible_value().and_then(|value| value.get_help().map(ToString::to_string));
        help.unwrap_or_default()
    }

    pub(super) fn run(self, rig: &mut Rig, report: &mut Report) -> Result<()> {
        match self {
            Self::Cluster => cluster::run(rig, report),
            Self::Labels => labels::run(rig, report),
            Self::Sources => sources::run(rig, report),
            Self::First => first::run(rig, report),
            Self::Blame => blame::run(rig, report),
            Self::Views => views::run(rig, report),
            Self::Chart => chart::run(rig, report),
            Self::Screens => screens::run(rig, report),
            Self::Outage => outage::run(rig, report),
            Self::Fleet => fleet::run(rig, report),
            Self::Burst => burst::run(rig, report),
            Self::Churn => churn::run(rig, report),
        }
    }
}
