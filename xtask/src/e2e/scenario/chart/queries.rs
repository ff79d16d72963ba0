//! Runs every query of the dashboards and every rule on the Prometheus that scrapes the agent's pod.

use anyhow::{Result, anyhow, ensure};

use super::NAMESPACE;
use crate::e2e::boards::questions::{Question, has_data, of_boards};
use crate::e2e::prometheus::Prometheus;
use crate::e2e::wait;

/// Queries that contain this text have no data in this cluster, with the reason. The agent's own test of the
/// dashboards covers them.
const ABSENT: [(&str, &str); 1] = [("sysprobe_pressure_", "cgroup v1 has no pressure stall information")];

pub(super) fn all(prometheus: &Prometheus) -> Result<String> {
    let pods = ["throttled", "deaf", "busy", "victim"];
    let mut left =
        wait::until("every variable has values", || Ok(of_boards(prometheus, NAMESPACE, &pods).ok()))?;
    let count = left.len();
    let is_absent = |question: &Question| ABSENT.iter().any(|(part, _)| question.forms[0].contains(part));
    left.retain(|question| !is_absent(question));
    let absent = count - left.len();
    let ended = wait::until("every query has data", || {
        let mut still = Vec::new();
        for question in &left {
            if !has_data(prometheus, question).map_err(|error| anyhow!(error))? {
                still.push(question.clone());
            }
        }
        left = still;
        Ok(left.is_empty().then_some(()))
    });
    ended.map_err(|error| {
        let places: Vec<_> =
            left.iter().map(|question| format!("{}: {}", question.place, question.forms[0])).collect();
        anyhow!("{error:#}: {}", places.join("; "))
    })?;
    let rules = prometheus.rules()?;
    let sick: Vec<_> = rules.iter().filter(|rule| rule["health"] != "ok").collect();
    ensure!(sick.is_empty(), "{sick:?}");
    Ok(format!("{count}, all have data but {absent} ({}); {} rules are well", ABSENT[0].1, rules.len()))
}
