//! The dashboards as files: their panels, variables and queries, and the expansion of queries with values for
//! the variables.
//!
//! `cargo xtask e2e` runs the same queries on a Prometheus in a cluster and includes this file as a module
//! (`xtask/src/e2e/boards.rs`).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

/// Matches `$name` and `${name}`.
static VARIABLE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\$(?:\{(\w+)\}|(\w+))").expect("a pattern"));

/// The repository's root.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate is in the workspace")
}

/// The files in a directory with this ending, sorted.
pub(crate) fn files(directory: &str, ending: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join(directory)).unwrap_or_else(|error| panic!("{directory}: {error}"));
    let mut files: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|file| file.to_string_lossy().ends_with(ending));
    files.sort();
    assert!(!files.is_empty(), "{directory} has no {ending}");
    files
}

pub(crate) fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// One file of `deploy/grafana`.
#[derive(Debug)]
pub(crate) struct Board {
    pub(crate) name: String,
    pub(crate) json: Value,
}

/// A query of a panel.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    /// The dashboard, panel and letter of the query.
    pub(crate) place: String,
    pub(crate) expression: String,
}

/// A variable whose values come from Prometheus.
#[derive(Clone, Debug)]
pub(crate) struct Variable {
    pub(crate) name: String,
    /// The selector in `label_values(SELECTOR, LABEL)`.
    pub(crate) selector: String,
    pub(crate) label: String,
}

impl Board {
    pub(crate) fn all() -> Vec<Self> {
        let parse = |file: PathBuf| {
            let name = file.file_stem().expect("a name").to_string_lossy().into_owned();
            let json = serde_json::from_str(&read(&file)).unwrap_or_else(|error| panic!("{name}: {error}"));
            Self { name, json }
        };
        files("deploy/grafana", ".json").into_iter().map(parse).collect()
    }

    pub(crate) fn panels(&self) -> &[Value] {
        self.json["panels"].as_array().expect("panels")
    }

    pub(crate) fn queries(&self) -> Vec<Query> {
        let of_panel = |panel: &Value| {
            let targets = panel["targets"].as_array().cloned().unwrap_or_default();
            let place = |target: &Value| format!("{}: {}: {}", self.name, panel["title"], target["refId"]);
            let query = |target: &Value| Query { place: place(target), expression: text(&target["expr"]) };
            targets.iter().map(query).collect::<Vec<_>>()
        };
        self.panels().iter().flat_map(of_panel).collect()
    }

    pub(crate) fn variables(&self) -> Vec<Variable> {
        let variables = self.json["templating"]["list"].as_array().expect("variables");
        let queried = variables.iter().filter(|variable| variable["type"] == "query");
        let variable = |json: &Value| {
            let query = text(&json["query"]["query"]);
            let inner = query.strip_prefix("label_values(").and_then(|rest| rest.strip_suffix(')'));
            let parts = inner.and_then(|inner| inner.rsplit_once(", "));
            let (selector, label) = parts.unwrap_or_else(|| panic!("{}: {query}", self.name));
            Variable { name: text(&json["name"]), selector: selector.to_owned(), label: label.to_owned() }
        };
        queried.map(variable).collect()
    }
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned()
}

/// Replaces `$name` and `${name}` with values.
pub(crate) fn expand(expression: &str, values: &BTreeMap<String, String>) -> String {
    let value = |parts: &regex::Captures| {
        let name = parts.get(1).or(parts.get(2)).expect("one of them").as_str();
        values.get(name).unwrap_or_else(|| panic!("{expression}: no variable {name}")).clone()
    };
    VARIABLE.replace_all(expression, value).into_owned()
}
