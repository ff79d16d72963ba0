//! The dashboards' queries, with values for their variables. They work with any Prometheus that has the
//! agent's metrics.
//!
//! `cargo xtask e2e` runs the same queries on a Prometheus in a cluster and includes this file as a module
//! (`xtask/src/e2e/boards.rs`).

use std::collections::BTreeMap;

use serde_json::Value;

use super::board::{Board, Variable, expand};

/// A Prometheus. Its methods return `None` while it does not answer.
pub(crate) trait Server {
    /// The current value of an expression, or the error in it.
    fn query(&self, expression: &str) -> Option<Result<Value, String>>;
    /// The values of a label in the selected series.
    fn label_values(&self, label: &str, selector: &str) -> Option<Vec<String>>;
}

/// A query that is repeated until one of its forms has data: data for one pod is enough.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) place: String,
    pub(crate) forms: Vec<String>,
}

/// Every query of every panel, for each of these pods of a namespace. An error names a variable that has no
/// values yet.
pub(crate) fn of_boards(
    server: &impl Server,
    namespace: &str,
    pods: &[&str],
) -> Result<Vec<Question>, String> {
    let mut questions = Vec::new();
    for board in Board::all() {
        let of_pods: Vec<_> =
            pods.iter().map(|pod| values(server, &board, namespace, pod)).collect::<Result<_, _>>()?;
        for query in board.queries() {
            let mut forms: Vec<_> = of_pods.iter().map(|values| expand(&query.expression, values)).collect();
            forms.dedup();
            questions.push(Question { place: query.place, forms });
        }
    }
    Ok(questions)
}

/// The values of a dashboard's variables when this pod is chosen. Other variables get all of their values by
/// name: some have `.*` for "All", which also matches missing labels. Each variable must have values.
fn values(
    server: &impl Server,
    board: &Board,
    namespace: &str,
    pod: &str,
) -> Result<BTreeMap<String, String>, String> {
    let mut values = BTreeMap::from([("__rate_interval".to_owned(), "30s".to_owned())]);
    for variable in board.variables() {
        let found = values_of(server, &variable, &values).unwrap_or_default();
        let wanted = match &*variable.name {
            "namespace" => Some(namespace),
            "pod" => Some(pod),
            _ => None,
        };
        let is_there = wanted.map_or(!found.is_empty(), |wanted| found.iter().any(|value| value == wanted));
        if !is_there {
            return Err(format!("{}: ${} has {found:?}, not {wanted:?}", board.name, variable.name));
        }
        let all = || found.iter().map(|value| regex::escape(value)).collect::<Vec<_>>().join("|");
        let chosen = wanted.map_or_else(all, str::to_owned);
        // Escaped, because Grafana inserts the values in quotes.
        values.insert(variable.name, chosen.replace('\\', r"\\"));
    }
    Ok(values)
}

fn values_of(
    server: &impl Server,
    variable: &Variable,
    values: &BTreeMap<String, String>,
) -> Option<Vec<String>> {
    server.label_values(&variable.label, &expand(&variable.selector, values))
}

/// Whether a query has data. Only numbers count; an invalid query can never have data and is an error.
pub(crate) fn has_data(server: &impl Server, question: &Question) -> Result<bool, String> {
    for form in &question.forms {
        let Some(answer) = server.query(form) else { continue };
        let data = answer.map_err(|error| format!("{}: {form}: {error}", question.place))?;
        let series = data["result"].as_array().map(Vec::as_slice).unwrap_or_default();
        // A native histogram has no single value.
        if series.iter().any(|series| series["value"][1].as_str().is_some_and(|value| value != "NaN")) {
            return Ok(true);
        }
    }
    Ok(false)
}
