//! The selection of pods: the common flags of all commands about pods, and their meaning. Pure.

mod selector;

use clap::{Args, builder::NonEmptyStringValueParser};
use clap_complete::engine::ArgValueCompleter;

use crate::cli::completion;
use crate::pods::SourceKind;
use crate::snapshot::{LABELS_SINCE, Query, Snapshot, WorkloadSample};

pub use selector::PodSelector;

/// Those in this namespace with these labels, or all.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// Only pods in this namespace.
    #[arg(
        short, long, value_name = "NAMESPACE", value_parser = NonEmptyStringValueParser::new(),
        add = ArgValueCompleter::new(completion::namespaces)
    )]
    pub namespace: Option<String>,
    /// Only pods with these labels, as in kubectl: `app=web,tier!=cache`, `env in (a,b)`, `!canary`.
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = PodSelector::parse)]
    pub selector: Option<PodSelector>,
}

/// Why nothing can be selected by labels.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoLabels {
    #[error(
        "the running agent is older than this command and does not report the labels of pods: leave out \
         --selector"
    )]
    OldAgent,
    #[error(
        "the labels of pods are not known, so --selector cannot be used: they come from the API server, the \
         kubelet or the CRI socket, and `sysprobe check` says why these are not used"
    )]
    NoSource,
}

impl Scope {
    /// Whether a workload is selected. Workloads outside of pods are selected only if nothing restricts the
    /// selection.
    #[must_use]
    pub(crate) fn has(&self, sample: &WorkloadSample) -> bool {
        let in_namespace = self.namespace.as_ref().is_none_or(|name| *name == sample.workload.namespace);
        in_namespace && self.selector.as_ref().is_none_or(|selector| selector.has(sample))
    }

    /// The query for what the selection needs.
    pub(crate) fn query(&self) -> Query {
        Query { labels: self.selector.is_some(), ..Query::default() }
    }

    /// Fails if no source knows the labels that the pods are selected by.
    pub(crate) fn check(&self, snapshot: &Snapshot) -> Result<(), NoLabels> {
        if self.selector.is_none() {
            return Ok(());
        }
        if snapshot.version < LABELS_SINCE {
            return Err(NoLabels::OldAgent);
        }
        let mut pods = snapshot.workloads.iter().filter_map(|sample| sample.pod.as_ref());
        let mut sources = snapshot.agent.pod_sources.iter();
        let told = sources.any(|source| source.up && tells_labels(&source.source));
        if told || pods.any(|pod| pod.labels.is_some()) { Ok(()) } else { Err(NoLabels::NoSource) }
    }

    /// The selection in words, for the screen; `None` if everything is selected.
    pub(crate) fn words(&self) -> Option<String> {
        let namespace = self.namespace.iter().map(|name| format!("namespace {name}"));
        let words = namespace.chain(self.selector.iter().map(|selector| format!("labels {selector}")));
        Some(words.collect::<Vec<_>>().join(", ")).filter(|words| !words.is_empty())
    }
}

/// A runtime's files contain no labels.
fn tells_labels(source: &str) -> bool {
    let sources = [SourceKind::Kubernetes, SourceKind::Kubelet, SourceKind::Cri];
    sources.iter().any(|kind| kind.name() == source)
}

#[cfg(test)]
mod tests;
