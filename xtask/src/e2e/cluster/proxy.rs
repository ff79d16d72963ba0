//! The proxy between the agent and the API server. It records every request, and causes trouble on demand.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::{apiserver, network};
use crate::e2e::http::{self, Body};
use crate::e2e::parts::Parts;
use crate::e2e::service::Service;
use crate::e2e::{pki, places};

const PORT: u16 = 6444;
const ORDERS: u16 = 6445;

/// A request and the status of its answer; zero without an answer.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::e2e) struct Request {
    pub(in crate::e2e) time: f64,
    pub(in crate::e2e) uri: String,
    pub(in crate::e2e) status: u64,
}

pub(super) fn start(parts: &Parts) -> Result<Service> {
    let mut command = parts.kubernetes("proxy");
    command.args(["--upstream", &apiserver::url()]).arg("--pki").arg(places::pki());
    // Pods reach it under the service's address.
    let places = format!("127.0.0.1:{PORT},{}:443", network::SERVICE_ADDRESS);
    command.arg(format!("--listen={places}")).arg(format!("--control=127.0.0.1:{ORDERS}"));
    let mut service = Service::start("proxy", command.arg("--requests").arg(list()))?;
    service.ready(|| http::get(ORDERS, "/").is_ok())?;
    Ok(service)
}

/// The agent's kubeconfig, with its token.
pub(in crate::e2e) fn kubeconfig(token: &str) -> Result<PathBuf> {
    let user = serde_json::json!({ "token": token });
    pki::kubeconfig("agent", &format!("https://127.0.0.1:{PORT}"), &user)
}

/// From now on, answers every request with 429 and this Retry-After; `None` ends this.
pub(in crate::e2e) fn busy(retry_after: Option<u32>) -> Result<()> {
    order(&format!("/busy?retry_after={}", retry_after.unwrap_or(0)))
}

/// Breaks every open connection.
pub(in crate::e2e) fn cut() -> Result<()> {
    order("/cut")
}

fn order(what: &str) -> Result<()> {
    let answer = http::ask(ORDERS, "POST", what, Body::default())?;
    if answer.status != 200 {
        bail!("the proxy refused {what}: {}", answer.body);
    }
    Ok(())
}

/// All requests so far.
pub(in crate::e2e) fn requests() -> Result<Vec<Request>> {
    let text = fs::read_to_string(list())?;
    text.lines().map(|line| request(line).with_context(|| format!("no request: {line}"))).collect()
}

impl Request {
    pub(in crate::e2e) fn is_watch(&self) -> bool {
        self.uri.contains("watch=")
    }

    /// Whether the API server answers it from memory, without a quorum read of the database.
    pub(in crate::e2e) fn is_cached_list(&self) -> bool {
        !self.is_watch() && self.uri.contains("resourceVersion=0") && !self.uri.contains("limit=")
    }
}

fn list() -> PathBuf {
    places::logs().join("requests.log")
}

fn request(line: &str) -> Option<Request> {
    let line: Value = serde_json::from_str(line).ok()?;
    Some(Request {
        time: line["time"].as_f64()?,
        uri: line["uri"].as_str()?.to_owned(),
        status: line["status"].as_u64()?,
    })
}
