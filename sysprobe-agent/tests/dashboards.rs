//! What is in `deploy` for Prometheus and Grafana, against a real Prometheus that scrapes a real agent on a node with real loads:
//! every query of every panel and variable, and every rule, is valid and has data, with classic and with native histograms.
//!
//! Grafana itself is not here: [`board`] does what it does with variables, and `on_paper` looks at the files only.

#[path = "dashboards/board.rs"]
mod board;
#[path = "dashboards/cluster.rs"]
mod cluster;
#[path = "dashboards/on_paper.rs"]
mod on_paper;
mod support;

use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use board::{Board, Variable, expand, files, text};
use cluster::{ApiServer, Cluster, NAMESPACE, PODS};
use support::agent::Agent;
use support::cgroup::is_v1;
use support::prometheus::{Options, Prometheus};
use support::{DEADLINE, figure, http, left_out, until};

/// Queries with this in them have no data here, and why.
const ABSENT_ON_V1: [(&str, &str); 1] =
    [("sysprobe_pressure_", "cgroup v1 has no pressure stall information")];

/// Alerts that these loads are reason for, with the pod.
const ALERTS: [(&str, &str); 3] = [
    ("SysprobeThrottled", "checkout"),
    ("SysprobeNoisyNeighbour", "encode"),
    ("SysprobeAcceptQueueDrops", "checkout"),
];

/// Something that Prometheus is asked until it has data for one of the forms: that of one pod is enough.
#[derive(Clone, Debug)]
struct Question {
    place: String,
    forms: Vec<String>,
}

#[test]
fn every_query_and_every_rule_has_data() {
    let ids = cluster::ids();
    let api = ApiServer::start(&ids);
    let agent = Agent::configured(&api.configuration());
    let _cluster = Cluster::start(&ids);
    let rules = files("deploy/prometheus", ".rules.yaml");
    let start = |native_histograms| {
        Prometheus::with(
            agent.port,
            &Options { native_histograms, rules: rules.clone(), as_in_a_cluster: true },
        )
    };
    // At the same time: the rates of one become old while the other is asked.
    let servers = [("classic", start(false)), ("native", start(true))];
    for (histograms, prometheus) in &servers {
        let started = Instant::now();
        let mut questions = questions_of_boards(prometheus);
        questions.extend(questions_of_rules(prometheus));
        let count = questions.len();
        leave_out_what_cannot_be(&mut questions);
        figure(&format!("{histograms}: {count} queries, {} of them with data to come", questions.len()));
        wait_for_data(prometheus, questions);
        figure(&format!("{histograms}: all have data after {:?}", started.elapsed()));
    }
    let [(_, classic), (_, native)] = &servers;
    let buckets = "count(sysprobe_sched_wakeup_latency_seconds_bucket)";
    assert!(classic.value(buckets).is_some() && native.value(buckets).is_none(), "the forms differ");
}

fn questions_of_boards(prometheus: &Prometheus) -> Vec<Question> {
    let mut questions = Vec::new();
    for board in Board::all() {
        let of_pods: Vec<_> = PODS.iter().map(|pod| values(prometheus, &board, pod)).collect();
        for query in board.queries() {
            let mut forms: Vec<_> = of_pods.iter().map(|values| expand(&query.expression, values)).collect();
            forms.dedup();
            questions.push(Question { place: query.place, forms });
        }
    }
    questions
}

/// What the variables of a dashboard stand for when this pod is chosen, and every value of the others by its name: "All" is `.*` in
/// some, which labels that are not there match as well. Each has values to choose from.
fn values(prometheus: &Prometheus, board: &Board, pod: &str) -> BTreeMap<String, String> {
    let mut values = BTreeMap::from([("__rate_interval".to_owned(), "30s".to_owned())]);
    for variable in board.variables() {
        let what = format!("{}: ${} has values", board.name, variable.name);
        let found = until(&what, || {
            let found = values_of(prometheus, &variable, &values)?;
            let has = |wanted: &str| found.iter().any(|value| value == wanted);
            match &*variable.name {
                "namespace" => has(NAMESPACE),
                "pod" => has(pod),
                _ => !found.is_empty(),
            }
            .then_some(found)
        });
        let chosen = match &*variable.name {
            "namespace" => NAMESPACE.to_owned(),
            "pod" => pod.to_owned(),
            _ => found.iter().map(|value| regex::escape(value)).collect::<Vec<_>>().join("|"),
        };
        // Within quotes, as Grafana does.
        values.insert(variable.name, chosen.replace('\\', r"\\"));
    }
    values
}

fn values_of(
    prometheus: &Prometheus,
    variable: &Variable,
    values: &BTreeMap<String, String>,
) -> Option<Vec<String>> {
    let selector = http::escape(&expand(&variable.selector, values));
    let found = prometheus.ask(&format!("/api/v1/label/{}/values?match[]={selector}", variable.label))?;
    Some(found.as_array()?.iter().map(text).collect())
}

/// Each rule is evaluated without a fault; what is recorded has data, and so have the alerts that are due.
fn questions_of_rules(prometheus: &Prometheus) -> Vec<Question> {
    let rules = until("every rule has been evaluated", || {
        let data = prometheus.ask("/api/v1/rules")?;
        let of_group = |group: &Value| group["rules"].as_array().cloned().unwrap_or_default();
        let rules: Vec<_> = data["groups"].as_array()?.iter().flat_map(of_group).collect();
        (!rules.is_empty() && rules.iter().all(|rule| rule["health"] != "unknown")).then_some(rules)
    });
    for rule in &rules {
        assert_eq!(rule["health"], "ok", "{rule}");
    }
    let recorded = rules.iter().filter(|rule| rule["type"] == "recording");
    let recorded = recorded.map(|rule| Question { place: "rules".into(), forms: vec![text(&rule["name"])] });
    let alerts = ALERTS.map(|(name, pod)| {
        let rule = rules.iter().find(|rule| rule["name"] == name).expect("there is such an alert");
        // As after a long time: until then a rate over minutes is small.
        let due = text(&rule["query"]).replace("[5m]", "[20s]");
        let of_pod =
            format!("sysprobe_sched_on_cpu_seconds_total{{namespace=\"{NAMESPACE}\",pod=\"{pod}\"}}");
        Question { place: name.to_owned(), forms: vec![format!("({due}) and on (namespace, pod) {of_pod}")] }
    });
    recorded.chain(alerts).collect()
}

fn leave_out_what_cannot_be(questions: &mut Vec<Question>) {
    for (part, reason) in ABSENT_ON_V1.iter().filter(|_| is_v1()) {
        let is_absent = |question: &Question| question.forms.iter().all(|form| form.contains(part));
        let before = questions.len();
        questions.retain(|question| !is_absent(question));
        let count = before - questions.len();
        assert!(count > 0, "no query has {part} any more");
        left_out(&format!("{count} queries of {part}*"), reason);
    }
}

fn wait_for_data(prometheus: &Prometheus, mut questions: Vec<Question>) {
    let start = Instant::now();
    let mut last = String::new();
    loop {
        questions.retain(|question| !has_data(prometheus, question));
        let Some(question) = questions.last() else {
            figure(&format!("the last was {last:?}, after {:?}", start.elapsed()));
            return;
        };
        last.clone_from(&question.place);
        assert!(
            start.elapsed() < DEADLINE,
            "no data after {DEADLINE:?}: {questions:#?}\n{}",
            prometheus.log()
        );
        sleep(Duration::from_millis(500));
    }
}

/// Only numbers are data. A query that is not valid will never be.
fn has_data(prometheus: &Prometheus, question: &Question) -> bool {
    question.forms.iter().any(|form| {
        let Some(answer) = prometheus.query(form) else { return false };
        let data = answer.unwrap_or_else(|error| panic!("{}: {form}: {error}", question.place));
        let mut series = data["result"].as_array().expect("series").iter();
        // A native histogram has no single value.
        series.any(|series| series["value"][1].as_str().is_some_and(|value| value != "NaN"))
    })
}
