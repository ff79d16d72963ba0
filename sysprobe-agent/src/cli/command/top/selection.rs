//! The selection of a table: which rows it has, by scope, filter and activity, and in which order. Pure.

use std::cmp::Ordering;
use std::collections::HashSet;

use super::views::View;
use crate::cli::rows::{self, Done, Row, SortKey, Window};
use crate::cli::scope::Scope;
use crate::snapshot::{Snapshot, Workload};

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
    let window = Window::of(earlier, later);
    let is_shown = |row: &Row| selection.all || !selection.view.is_idle(row);
    let rows_of = |some: Vec<Done>| {
        let mut rows: Vec<Row> =
            some.into_iter().map(|done| rows::row(done, window)).filter(is_shown).collect();
        rows.sort_by(|a, b| compare(a, b, selection));
        rows
    };
    let each = rows::each_done(earlier, later, |sample| selection.scope.has(sample));
    let each = wanted(each.collect(), selection);
    if !selection.pods {
        return rows_of(each);
    }
    let (whole, mut parts) = rows::whole(each);
    let below = |pod: Row| {
        let is_expanded = selection.expanded.contains(&pod.workload);
        let parts = if is_expanded { parts.remove(&pod.workload).unwrap_or_default() } else { Vec::new() };
        std::iter::once(pod).chain(rows_of(parts)).collect::<Vec<_>>()
    };
    rows_of(whole).into_iter().flat_map(below).collect()
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

/// Workloads that match the filter. With rows by pod, one matching container includes all containers of its
/// pod.
fn wanted(mut each: Vec<Done>, selection: &Selection) -> Vec<Done> {
    let filter = selection.filter.to_lowercase();
    let matching = each.iter().filter(|done| matches(&done.workload, &filter));
    let pods: HashSet<Workload> = matching.filter_map(Done::pod).filter(|_| selection.pods).collect();
    each.retain(|done| matches(&done.workload, &filter) || done.pod().is_some_and(|pod| pods.contains(&pod)));
    each
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
