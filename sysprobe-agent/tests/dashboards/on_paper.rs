//! Checks the files alone: every metric and page that they name exists, and dashboards have a valid layout
//! and can be loaded as they are.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use regex::Regex;
use serde_json::Value;
use sysprobe_agent::metrics::table::{self, Kind};

use super::board::{Board, expand, files, read, root, text};

/// The text of each rule, by name, up to the next rule.
fn rules(kind: &str) -> BTreeMap<String, String> {
    let mut rules = BTreeMap::new();
    for file in files("deploy/prometheus", ".rules.yaml") {
        for block in read(&file).split("\n      - ").skip(1) {
            if let Some(rest) = block.strip_prefix(&format!("{kind}: ")) {
                let (name, rest) = rest.split_once('\n').expect("more than a name");
                assert!(rules.insert(name.to_owned(), rest.to_owned()).is_none(), "{name} is there twice");
            }
        }
    }
    assert!(rules.len() > 5, "{kind}: {rules:?}");
    rules
}

/// Every name in the expressions of rules and dashboards that looks like a metric.
fn names() -> BTreeSet<String> {
    let pattern = Regex::new(r"\b(?:\w+:)*(?:sysprobe|process)_[a-z0-9_]+(?::\w+)*").expect("a pattern");
    let mut texts: Vec<String> =
        files("deploy/prometheus", ".rules.yaml").iter().map(|file| read(file)).collect();
    for board in Board::all() {
        texts.extend(board.queries().into_iter().map(|query| query.expression));
        texts.extend(board.variables().into_iter().map(|variable| variable.selector));
    }
    let in_text =
        |text: &String| pattern.find_iter(text).map(|name| name.as_str().to_owned()).collect::<Vec<_>>();
    texts.iter().flat_map(in_text).collect()
}

#[test]
fn rules_and_dashboards_only_name_metrics_that_there_are() {
    let recorded = rules("record");
    let mut known: BTreeSet<String> = recorded.keys().cloned().collect();
    for metric in table::all() {
        let name = metric.full_name();
        if metric.kind == Kind::Histogram {
            known.extend(["_bucket", "_count", "_sum"].map(|end| format!("{name}{end}")));
        }
        known.insert(name);
    }
    let unknown: Vec<_> = names().into_iter().filter(|name| !known.contains(name)).collect();
    assert!(unknown.is_empty(), "not in the table of metrics, nor recorded: {unknown:?}");
}

#[test]
fn every_alert_has_a_page_and_every_page_an_alert() {
    let alerts = rules("alert");
    for (name, rule) in &alerts {
        for part in ["severity: ", "summary: ", "description: ", "expr: "] {
            assert!(rule.contains(part), "{name} has no {part}");
        }
        assert!(rule.contains(&format!("runbook_url: docs/runbook/{name}.md\n")), "{name}: {rule}");
    }
    let page = |file: &std::path::PathBuf| file.file_stem().expect("a name").to_string_lossy().into_owned();
    let pages: BTreeSet<_> =
        files("docs/runbook", ".md").iter().map(page).filter(|page| page != "README").collect();
    assert_eq!(alerts.keys().cloned().collect::<BTreeSet<_>>(), pages);
    let contents = read(&root().join("docs/runbook/README.md"));
    for page in &pages {
        assert!(contents.contains(&format!("({page}.md)")), "{page} is not in the contents");
        let text = read(&root().join(format!("docs/runbook/{page}.md")));
        let headings = ["## What it means", "## Confirm", "## What to change", "## False alarms"];
        for heading in headings {
            assert!(text.contains(&format!("\n{heading}\n")), "{page} has no {heading}");
        }
    }
}

#[test]
fn promtool_finds_the_rules_good_and_their_tests_pass() {
    let run = |command: &str, files: &[std::path::PathBuf]| {
        let output = Command::new("promtool").args([command, "rules"]).args(files).output();
        let output = output.expect("promtool comes with the package `prometheus`");
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.success(), "{command}: {said}");
    };
    run("check", &files("deploy/prometheus", ".rules.yaml"));
    run("test", &files("deploy/prometheus/tests", ".test.yaml"));
}

#[test]
fn every_alert_is_tested_to_fire_and_not_to() {
    let tests: String =
        files("deploy/prometheus/tests", ".test.yaml").iter().map(|file| read(file)).collect();
    for name in rules("alert").keys() {
        assert!(
            tests.contains(&format!("runbook_url: docs/runbook/{name}.md")),
            "{name} never fires in a test"
        );
        assert!(
            tests.contains(&format!("{{alertname: {name}, eval_time: ")),
            "{name} is not tested without series"
        );
    }
}

#[test]
fn dashboards_can_be_loaded_as_they_are() {
    let boards = Board::all();
    let uids: BTreeSet<_> = boards.iter().map(|board| text(&board.json["uid"])).collect();
    assert_eq!(uids.len(), boards.len(), "{uids:?}");
    let link = Regex::new(r"/d/([\w-]+)\?").expect("a pattern");
    for board in &boards {
        let Board { name, json } = board;
        assert_eq!(json["uid"], format!("sysprobe-{name}"));
        assert_eq!(json["schemaVersion"], 42, "{name}");
        for absent in ["__inputs", "__requires", "id"] {
            assert!(json[absent].is_null(), "{name} has {absent}: it is exported for sharing");
        }
        let all = json.to_string();
        for target in link.captures_iter(&all) {
            assert!(uids.contains(&target[1]), "{name} links to {}", &target[1]);
        }
        let mut ids = BTreeSet::new();
        for panel in board.panels() {
            assert!(ids.insert(panel["id"].as_u64().expect("a number")), "{name}: {}", panel["id"]);
            check_panel(name, panel);
        }
        check_places(board);
        for variable in json["templating"]["list"].as_array().expect("variables") {
            let is_query = variable["type"] == "query";
            assert!(!is_query || variable["datasource"]["uid"] == "${datasource}", "{name}: {variable}");
            // Grafana shows the definition but evaluates the query.
            assert!(!is_query || variable["definition"] == variable["query"]["query"], "{name}: {variable}");
        }
    }
}

fn check_panel(board: &str, panel: &Value) {
    let kind = text(&panel["type"]);
    if kind == "row" || kind == "text" {
        return;
    }
    let place = format!("{board}: {}", panel["title"]);
    assert!(["timeseries", "stat", "table"].contains(&&*kind), "{place}: {kind}");
    assert!(text(&panel["description"]).len() > 10 && !text(&panel["title"]).is_empty(), "{place}");
    assert!(text(&panel["description"]).contains("Source: ") || kind == "text", "{place} names no source");
    assert!(panel["fieldConfig"]["defaults"]["unit"].is_string(), "{place} has no unit");
    assert_eq!(panel["datasource"]["uid"], "${datasource}", "{place}");
    let targets = panel["targets"].as_array().expect("targets");
    assert!(
        !targets.is_empty() && targets.iter().all(|target| target["datasource"] == panel["datasource"]),
        "{place}"
    );
    let values = BTreeMap::from([("runbook".to_owned(), "docs/runbook".to_owned())]);
    for link in panel["links"].as_array().into_iter().flatten() {
        let page = expand(&text(&link["url"]), &values);
        assert!(root().join(&page).exists(), "{place} links to {page}");
    }
}

/// Panels must fit into the 24 columns without overlapping.
fn check_places(board: &Board) {
    let mut taken = BTreeMap::new();
    for panel in board.panels() {
        let [x, y, w, h] = ["x", "y", "w", "h"].map(|key| panel["gridPos"][key].as_u64().expect("a number"));
        assert!(w > 0 && h > 0 && x + w <= 24, "{}: {}", board.name, panel["title"]);
        for cell in (x..x + w).flat_map(|column| (y..y + h).map(move |line| (column, line))) {
            let other = taken.insert(cell, &panel["title"]);
            assert!(other.is_none(), "{}: {} lies on {other:?}", board.name, panel["title"]);
        }
    }
}

#[test]
fn causes_and_quantiles_have_the_same_colours_everywhere() {
    let mut colours: BTreeMap<String, (String, String)> = BTreeMap::new();
    for board in Board::all() {
        for panel in board.panels() {
            for part in panel["fieldConfig"]["overrides"].as_array().into_iter().flatten() {
                let Some(colour) = part["properties"][0]["value"]["fixedColor"].as_str() else { continue };
                let place = format!("{}: {}", board.name, panel["title"]);
                let name = text(&part["matcher"]["options"]);
                let (known, first) =
                    colours.entry(name.clone()).or_insert_with(|| (colour.to_owned(), place.clone()));
                assert_eq!(known, colour, "{name}: {place} differs from {first}");
            }
        }
    }
    for cause in ["throttled", "same_pod", "other_pod", "system", "kernel", "interrupt", "idle", "unknown"] {
        assert!(colours.contains_key(cause), "{cause} has no colour");
    }
}
