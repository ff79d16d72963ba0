//! Tests the files in `deploy` for Prometheus and Grafana with a real Prometheus that scrapes a real agent on
//! a node with real loads. Every query of every panel and variable, and every rule, is valid and has data,
//! with classic and with native histograms.
//!
//! Grafana itself is not used: [`board`] substitutes variables as Grafana does, and `on_paper` checks only
//! the files.

#[path = "dashboards/board.rs"]
mod board;
#[path = "dashboards/cluster.rs"]
mod cluster;
#[path = "dashboards/on_paper.rs"]
mod on_paper;
#[path = "dashboards/questions.rs"]
mod questions;
mod support;

use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use board::{files, text};
use cluster::{ApiServer, Cluster, NAMESPACE, PODS};
use questions::{Question, Server};
use support::agent::Agent;
use support::cgroup::is_v1;
use support::prometheus::{Options, Prometheus};
use support::{DEADLINE, figure, http, left_out, until};

/// Queries that contain this text have no data here, with the reason.
const ABSENT_ON_V1: [(&str, &str); 1] =
    [("sysprobe_pressure_", "cgroup v1 has no pressure stall information")];

/// Alerts that these loads cause, with the pod.
const ALERTS: [(&str, &str); 3] = [
    ("SysprobeThrottled", "checkout"),
    ("SysprobeNoisyNeighbour", "encode"),
    ("SysprobeAcceptQueueDrops", "checkout"),
];

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
            &Options { native_histograms, rules: rules.clone(), as_in_a_cluster: true, ..Options::default() },
        )
    };
    // Both are checked at the same time: while one is queried, the rates of the other would expire.
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
    until("every variable has values", || questions::of_boards(prometheus, NAMESPACE, &PODS).ok())
}

impl Server for Prometheus {
    fn query(&self, expression: &str) -> Option<Result<Value, String>> {
        Self::query(self, expression)
    }

    fn label_values(&self, label: &str, selector: &str) -> Option<Vec<String>> {
        let found = self.ask(&format!("/api/v1/label/{label}/values?match[]={}", http::escape(selector)))?;
        Some(found.as_array()?.iter().map(text).collect())
    }
}

/// Checks that each rule is evaluated without errors. Recording rules must have data, and so must the alerts
/// that are due.
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
        // Shortens the window, because a rate over minutes is small at first.
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

fn has_data(prometheus: &Prometheus, question: &Question) -> bool {
    questions::has_data(prometheus, question).unwrap_or_else(|error| panic!("{error}"))
}
