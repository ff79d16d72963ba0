//! The selection of a table: which rows it has, by scope, filter and activity, and in which order. Pure.

use std::cmp::Ordering;
use std::collections::HashSet;

use super::views::View;
use crate::cli::rows::{self, PodRows, Row, SortKey};
use crate::cli::scope::Scope;
use crate::snapshot::{Snapshot, Workload, WorkloadSample};

/// Which rows to show, in which order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// The table that shows them, which decides what counts as idle.
    pub view: View,
    pub sort: SortKey,
    pub reverse: bool,
    /// The pods to show; workloads outside of pods are shown only without a restriction.
    pub scope: Scope,
    /// A part of a namespace, pod or container, ignoring case; empty matches everything.
    pub filter: String,
    /// Whether to show idle workloads.
    pub all: bool,
    /// Whether a pod has one row, instead of one per container.
    pub pods: bool,
    /// The pods whose containers are shown below them.
    pub expanded: HashSet<Workload>,
}

impl Selection {
    /// The name of a row as it is shown below its pod, or alone.
    #[must_use]
    pub fn name(&self, row: &Row, name_of: fn(&Workload) -> String) -> String {
        let Workload { pod, container, .. } = &row.workload;
        if !self.pods || pod.is_empty() || container.is_empty() {
            return name_of(&row.workload);
        }
        let alone = Workload { container: container.clone(), ..Workload::default() };
        format!("  {}", name_of(&alone))
    }
}

/// The rows of a window, in the requested order.
#[must_use]
pub(super) fn rows(earlier: &Snapshot, later: &Snapshot, selection: &Selection) -> Vec<Row> {
    let wanted = Wanted::of(later, selection);
    let is_wanted = |sample: &WorkloadSample| wanted.has(sample);
    if !selection.pods {
        return ordered(rows::of_workloads(earlier, later, is_wanted), selection);
    }
    let pods = PodRows::of(earlier, later, is_wanted);
    let below = |pod: Row| {
        let is_expanded = selection.expanded.contains(&pod.workload);
        let containers = is_expanded.then(|| pods.containers(&pod.workload));
        let containers = ordered(containers.into_iter().flatten(), selection);
        std::iter::once(pod).chain(containers)
    };
    ordered(pods.rows(), selection).into_iter().flat_map(below).collect()
}

/// The rows that are shown, in the requested order.
fn ordered(rows: impl Iterator<Item = Row>, selection: &Selection) -> Vec<Row> {
    let mut rows: Vec<Row> = rows.filter(|row| selection.all || !selection.view.is_idle(row)).collect();
    rows.sort_by(|a, b| compare(a, b, selection));
    rows
}

/// The reason why no pod matches the selection, as a sentence; `None` if one does.
pub(super) fn no_pods(snapshot: &Snapshot, selection: &Selection) -> Option<String> {
    if let Err(error) = selection.scope.check(snapshot) {
        return Some(error.to_string());
    }
    let scope = selection.scope.words().filter(|_| total(snapshot, selection) == 0);
    scope.map(|scope| format!("No pod here has {scope}."))
}

/// Number of rows without a filter, including idle workloads.
pub(super) fn total(snapshot: &Snapshot, selection: &Selection) -> usize {
    let in_scope = snapshot.workloads.iter().filter(|sample| selection.scope.has(sample));
    let workloads = in_scope.map(|sample| &sample.workload);
    if !selection.pods {
        return workloads.count();
    }
    let (alone, of_pods): (Vec<_>, Vec<_>) = workloads.partition(|workload| workload.pod.is_empty());
    let pods: HashSet<_> = of_pods.iter().map(|workload| (&workload.namespace, &workload.pod)).collect();
    alone.len() + pods.len()
}

/// The workloads in the scope that match the filter. With rows by pod, one matching container includes all
/// containers of its pod.
struct Wanted<'a> {
    scope: &'a Scope,
    filter: String,
    /// The pods with a matching container.
    pods: HashSet<Workload>,
}

impl<'a> Wanted<'a> {
    fn of(snapshot: &Snapshot, selection: &'a Selection) -> Self {
        let (scope, filter) = (&selection.scope, selection.filter.to_lowercase());
        let is_match = |sample: &&WorkloadSample| scope.has(sample) && matches(&sample.workload, &filter);
        let matching = snapshot.workloads.iter().filter(|_| selection.pods).filter(is_match);
        let pods = matching.filter_map(|sample| sample.workload.whole_pod()).collect();
        Self { scope, filter, pods }
    }

    fn has(&self, sample: &WorkloadSample) -> bool {
        let of_pod = || sample.workload.whole_pod().is_some_and(|pod| self.pods.contains(&pod));
        self.scope.has(sample) && (matches(&sample.workload, &self.filter) || of_pod())
    }
}

/// `filter` has to be in lower case.
fn matches(workload: &Workload, filter: &str) -> bool {
    [&workload.namespace, &workload.pod, &workload.container]
        .iter()
        .any(|name| name.to_lowercase().contains(filter))
}

/// Workloads without the number come last in either direction, because they do not belong at the top.
fn compare(a: &Row, b: &Row, selection: &Selection) -> Ordering {
    let turn = |order: Ordering| if selection.reverse { order.reverse() } else { order };
    let by_name = a.workload.cmp(&b.workload);
    if selection.sort == SortKey::Name {
        return turn(by_name);
    }
    match (a.number(selection.sort), b.number(selection.sort)) {
        (Some(a), Some(b)) => turn(b.total_cmp(&a)).then(by_name),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => by_name,
    }
}

#[cfg(test)]
mod tests;
