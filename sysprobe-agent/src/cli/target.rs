//! Resolves what the user typed to one workload: a pod by its name or a prefix, with or without its
//! namespace, or another workload by its unit or path. Pure.

use std::collections::BTreeSet;
use std::fmt;

use crate::cli::args::WorkloadArgs;
use crate::cli::format;
use crate::cli::scope::{NoLabels, Scope};
use crate::{
    cgroup::name::name_of,
    snapshot::{Culprit, Snapshot, Workload, WorkloadSample},
};

/// Number of names that an error lists.
const LISTED: usize = 10;

/// A pod, one of its containers, or a workload outside of pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) who: Culprit,
    /// `None` for all containers.
    pub(crate) container: Option<String>,
}

/// Why nothing can be shown.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoTarget {
    #[error("no {what} is called `{}`{}", format::clean(.text), Listed(.candidates, "there is", "there are"))]
    Unknown { what: &'static str, text: String, candidates: Vec<String> },
    #[error("`{}` may be more than one {what}{}", format::clean(.text), Listed(.candidates, "", "choose one \
                                                                                                 of"))]
    Ambiguous { what: &'static str, text: String, candidates: Vec<String> },
    #[error("no pod on this node matches {}", format::clean(.0))]
    NotSelected(String),
    #[error("`{}` is not a pod: leave out --container", format::clean(.0))]
    NoContainers(String),
    #[error(transparent)]
    NoLabels(#[from] NoLabels),
}

/// Some names at the end of a sentence.
struct Listed<'a>(&'a [String], &'static str, &'static str);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(names, one, several) = self;
        let (listed, rest) = names.split_at(names.len().min(LISTED));
        match listed {
            [] => return Ok(()),
            [name] => write!(f, "; {one} {}", format::clean(name))?,
            _ => write!(f, "; {several} {}", format::clean(&listed.join(", ")))?,
        }
        if rest.is_empty() { Ok(()) } else { write!(f, " and {} more", rest.len()) }
    }
}

impl Target {
    /// Finds the workload that the arguments mean. A deleted one counts only if no other workload has that
    /// name.
    pub(crate) fn find(snapshot: &Snapshot, args: &WorkloadArgs) -> Result<Self, NoTarget> {
        let scope = &args.scope;
        scope.check(snapshot)?;
        let known = |gone: bool| -> BTreeSet<Culprit> {
            let samples = snapshot.workloads.iter().filter(|sample| gone || !sample.gone);
            samples.filter(|sample| scope.has(sample)).map(|sample| sample.workload.as_culprit()).collect()
        };
        let find = |known| match &args.name {
            Some(name) => choose(&known, name, what(scope), names_of),
            None => only(&known, scope),
        };
        let who = match find(known(false)) {
            Err(unknown) if unknown.is_unknown() => find(known(true)).map_err(|_| unknown),
            chosen => chosen,
        }?;
        let container = args.container.as_ref().map(|name| container_of(snapshot, &who, name)).transpose()?;
        Ok(Self { who, container })
    }

    /// The target of a table's row. Without a container's name it is the pod as a whole.
    pub(crate) fn of(workload: &Workload) -> Self {
        let Workload { pod, container, .. } = workload;
        let container = (!pod.is_empty() && !container.is_empty()).then(|| container.clone());
        Self { who: workload.as_culprit(), container }
    }

    /// The target's samples in a snapshot.
    pub(crate) fn samples<'a>(&self, snapshot: &'a Snapshot) -> impl Iterator<Item = &'a WorkloadSample> {
        snapshot.workloads.iter().filter(|sample| self.has(&sample.workload))
    }

    /// The same, each with its sample at the beginning of a window.
    pub(crate) fn pairs<'a>(
        &'a self,
        earlier: &'a Snapshot,
        later: &'a Snapshot,
    ) -> impl Iterator<Item = (Option<&'a WorkloadSample>, &'a WorkloadSample)> {
        let before = earlier.beginning();
        self.samples(later).map(move |sample| (before.of(sample), sample))
    }

    pub(crate) fn has(&self, workload: &Workload) -> bool {
        let Workload { namespace, pod, container } = workload;
        if self.who.pod.is_empty() {
            return pod.is_empty() && *container == self.who.container;
        }
        let of_pod = *pod == self.who.pod && *namespace == self.who.namespace;
        of_pod && self.container.as_ref().is_none_or(|only| only == container)
    }

    /// `namespace/pod`, with the container if the target is only one; otherwise the unit or path. Safe to
    /// print.
    pub(crate) fn name(&self) -> String {
        let who = name(&self.who);
        match &self.container {
            Some(container) => format!("{who}/{}", format::clean(container)),
            None => who,
        }
    }
}

impl NoTarget {
    /// Whether the name does not exist, or is not known yet.
    pub(crate) const fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown { .. } | Self::NotSelected(_) | Self::NoLabels(NoLabels::NoSource))
    }
}

/// The kind of workload that is searched for, in words.
const fn what(scope: &Scope) -> &'static str {
    match (&scope.namespace, &scope.selector) {
        (Some(_), Some(_)) => "pod of this namespace with these labels",
        (None, Some(_)) => "pod with these labels",
        (Some(_), None) => "pod of this namespace",
        (None, None) => "workload",
    }
}

/// The only pod that the labels select.
fn only(known: &BTreeSet<Culprit>, scope: &Scope) -> Result<Culprit, NoTarget> {
    let text = scope.selector.iter().map(ToString::to_string).collect();
    let mut found = known.iter();
    match (found.next(), found.next()) {
        (None, _) => Err(NoTarget::NotSelected(scope.words().unwrap_or_default())),
        (Some(one), None) => Ok(one.clone()),
        (Some(_), Some(_)) => {
            let candidates = known.iter().filter_map(|one| names_of(one).pop()).collect();
            Err(NoTarget::Ambiguous { what: "pod", text, candidates })
        }
    }
}

/// `namespace/pod`, or the unit or path outside of pods; safe to print.
pub(crate) fn name(who: &Culprit) -> String {
    let Culprit { namespace, pod, container } = who.clone();
    format::short_name(&Workload { namespace, pod, container })
}

/// The names that users may type, the full form last.
fn names_of(who: &Culprit) -> Vec<String> {
    if who.pod.is_empty() {
        vec![who.container.clone()]
    } else {
        vec![who.pod.clone(), format!("{}/{}", who.namespace, who.pod)]
    }
}

fn container_of(snapshot: &Snapshot, who: &Culprit, name: &str) -> Result<String, NoTarget> {
    if who.pod.is_empty() {
        return Err(NoTarget::NoContainers(who.container.clone()));
    }
    let pod = Target { who: who.clone(), container: None };
    let containers: BTreeSet<String> = pod
        .samples(snapshot)
        .map(|sample| sample.workload.container.clone())
        .filter(|container| !container.is_empty())
        .collect();
    choose(&containers, name, "container of this pod", |container| vec![container.clone()])
}

/// The element with this name, else the one whose name begins with it.
fn choose<T: Clone>(
    known: &BTreeSet<T>,
    text: &str,
    what: &'static str,
    names: impl Fn(&T) -> Vec<String>,
) -> Result<T, NoTarget> {
    // A path is a cgroup's, which may be named by its unit or container.
    let of_path = text.starts_with('/').then(|| name_of(text).name);
    let is_exact = |name: &String| name == text || of_path.as_ref() == Some(name);
    let having = |fits: &dyn Fn(&String) -> bool| -> Vec<&T> {
        known.iter().filter(|one| names(one).iter().any(fits)).collect()
    };
    let full = |some: &[&T]| some.iter().filter_map(|one| names(one).pop()).collect();
    let text = text.to_owned();
    for found in [having(&is_exact), having(&|name| name.starts_with(&text))] {
        match found[..] {
            [] => {}
            [one] => return Ok(one.clone()),
            _ => return Err(NoTarget::Ambiguous { what, text, candidates: full(&found) }),
        }
    }
    let similar = having(&|name| name.contains(&text));
    let all: Vec<&T> = known.iter().collect();
    let candidates = full(if similar.is_empty() { &all } else { &similar });
    Err(NoTarget::Unknown { what, text, candidates })
}

#[cfg(test)]
mod tests;
