//! The agents' requests in the API server's audit log.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result};
use serde_json::Value;

use super::apiserver::audit_log;

/// One request. Its time runs from arrival to the end of the answer; for a watch, to the start of the answer.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::e2e) struct Audited {
    pub(in crate::e2e) is_watch: bool,
    pub(in crate::e2e) uri: String,
    pub(in crate::e2e) status: u64,
    pub(in crate::e2e) seconds: f64,
}

/// The current length of the log, as the position to read from later.
pub(in crate::e2e) fn end() -> Result<usize> {
    Ok(usize::try_from(fs::metadata(audit_log())?.len())?)
}

/// The requests that were answered after that position.
pub(in crate::e2e) fn since(end: usize) -> Result<Vec<Audited>> {
    let text = fs::read_to_string(audit_log())?;
    requests(text.get(end..).unwrap_or_default())
}

/// The log has a line for each stage that a request reaches; the first stage with an answer counts.
fn requests(text: &str) -> Result<Vec<Audited>> {
    let mut found = BTreeMap::new();
    for line in text.lines() {
        let stage: Value =
            serde_json::from_str(line).with_context(|| format!("no line of an audit: {line}"))?;
        if let Some(request) = request(&stage) {
            found.entry(stage["auditID"].to_string()).or_insert(request);
        }
    }
    Ok(found.into_values().collect())
}

fn request(stage: &Value) -> Option<Audited> {
    let is_watch = stage["verb"] == "watch";
    let answers = stage["stage"] == "ResponseComplete" || is_watch && stage["stage"] == "ResponseStarted";
    let seconds = time(&stage["stageTimestamp"])? - time(&stage["requestReceivedTimestamp"])?;
    answers.then_some(Audited {
        is_watch,
        uri: stage["requestURI"].as_str()?.to_owned(),
        status: stage["responseStatus"]["code"].as_u64()?,
        // The request may span midnight.
        seconds: seconds.rem_euclid(86_400.0),
    })
}

/// Seconds since midnight, from `2026-11-20T16:43:59.123456Z`.
fn time(stamp: &Value) -> Option<f64> {
    let (_, time) = stamp.as_str()?.trim_end_matches('Z').split_once('T')?;
    let mut parts = time.split(':').map(|part| part.parse::<f64>().ok());
    Some(parts.next()?? * 3600.0 + parts.next()?? * 60.0 + parts.next()??)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_counted_once_and_measured_until_its_answer() {
        let line = |id: &str, verb: &str, stage: &str, end: &str| {
            format!(
                "{{\"auditID\":\"{id}\",\"verb\":\"{verb}\",\"stage\":\"{stage}\",\
                 \"requestURI\":\"/api/v1/pods\",\"responseStatus\":{{\"code\":200}},\
                 \"requestReceivedTimestamp\":\"2026-11-20T23:59:59.500000Z\",\"stageTimestamp\":\"{end}\"}}"
            )
        };
        let text = [
            line("a", "list", "RequestReceived", "2026-11-20T23:59:59.500000Z"),
            line("a", "list", "ResponseComplete", "2026-11-21T00:00:00.000000Z"),
            line("b", "watch", "ResponseStarted", "2026-11-20T23:59:59.600000Z"),
            line("b", "watch", "ResponseComplete", "2026-11-21T00:05:00.000000Z"),
        ];
        let found = requests(&text.join("\n")).unwrap();
        assert_eq!(found.len(), 2);
        assert!(!found[0].is_watch && (found[0].seconds - 0.5).abs() < 1e-6, "{found:?}");
        assert!(found[1].is_watch && (found[1].seconds - 0.1).abs() < 1e-6, "{found:?}");
    }
}
