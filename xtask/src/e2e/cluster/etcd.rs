//! The API server's database, and the two operations that the rig does behind the API server's back.

use anyhow::{Result, bail};
use serde_json::{Value, json};

use crate::e2e::http::{self, Body};
use crate::e2e::parts::Parts;
use crate::e2e::places;
use crate::e2e::service::Service;

const PORT: u16 = 2379;

/// `sysprobe` in base64, as etcd's JSON API expects keys and values.
const KEY: &str = "c3lzcHJvYmU=";

pub(super) fn start(parts: &Parts) -> Result<Service> {
    let (clients, peers) = (url(), "http://127.0.0.1:2380");
    let mut command = parts.kubernetes("etcd");
    command.arg("--data-dir").arg(places::state().join("etcd"));
    command.args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients]);
    command.args(["--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers]);
    command.args(["--name", "rig", "--initial-cluster", &format!("rig={peers}")]);
    // The data need not survive a crash of the machine.
    command.args(["--unsafe-no-fsync", "--log-level", "warn"]);
    let mut service = Service::start("etcd", &mut command)?;
    service.ready(|| http::get(PORT, "/health").is_ok_and(|answer| answer.status == 200))?;
    Ok(service)
}

/// Writes a key that is not a Kubernetes object, then compacts all history, so that no watch can resume from
/// its last version.
pub(in crate::e2e) fn compact() -> Result<()> {
    let written = call("put", &json!({ "key": KEY, "value": KEY }))?;
    let revision = &written["header"]["revision"];
    call("compaction", &json!({ "revision": revision, "physical": true })).map(drop)
}

fn call(what: &str, request: &Value) -> Result<Value> {
    let body = Body { kind: "application/json", text: &request.to_string() };
    let answer = http::ask(PORT, "POST", &format!("/v3/kv/{what}"), body)?;
    if answer.status != 200 {
        bail!("etcd refused {what}: {}", answer.body);
    }
    Ok(serde_json::from_str(&answer.body)?)
}

pub(super) fn url() -> String {
    format!("http://127.0.0.1:{PORT}")
}
