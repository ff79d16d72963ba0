//! What the dashboards ask a Prometheus, with the values of their variables. It holds for any Prometheus,
//! whatever has filled it.
//!
//! `cargo xtask e2e` asks the same of a Prometheus in a cluster and has this file as a module of its own
//! (`xtask/src/e2e/boards.rs`).

use std::collections::BTreeMap;

use serde_json::Value;

use super::board::{Board, Variable, expand};

/// A Prometheus; `None` is said while it does not answer.
pub(crate) trait Server {
    /// What an expression is now, or what is wrong with it.
    fn query(&self, expression: &str) -> Option<Result<Value, String>>;
    /// The values that a label has in series.
    fn label_values(&self, label: &str, selector: &str) -> Option<Vec<String>>;
}

/// Something that Prometheus is asked until it has data for one of the forms: that of one pod is enough.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) place: String,
    pub(crate) forms: Vec<String>,
}

/// Every query of every panel, for each of these pods of a namespace; an error says which variable has not
/// its values yet.
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

/// What the variables of a dashboard stand for when this pod is chosen, and every value of the others by its
/// name: "All" is `.*` in some, which labels that are not there match as well. Each has values to choose
/// from.
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
        // Within quotes, as Grafana does.
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

/// Only numbers are data. A query that is not valid will never be, which is an error.
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
