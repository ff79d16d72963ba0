//! The pods in the pictures: a shop, and a batch job that takes most of its CPU time.

use anyhow::Result;
use serde_json::{Value, json};

use crate::e2e::pods::{self, container_running};
use crate::e2e::rig::Rig;
use crate::e2e::samples::Workload;
use crate::e2e::scenario::blame::{SPIN, spin_on_all};
use crate::e2e::{kube, wait};

const SHOP: &str = "shop";
const BATCH: &str = "batch";
/// The batch job, which has the CPUs most of the time.
pub(super) const CULPRIT: &str = "batch/report";

pub(super) fn start(rig: &mut Rig) -> Result<()> {
    for namespace in [SHOP, BATCH] {
        kube::namespace(namespace)?;
    }
    for pod in [checkout(), web(), report()] {
        kube::create_pod(&pod)?;
    }
    let all = [(SHOP, "checkout", "app"), (SHOP, "web", "client"), (BATCH, "report", "main")];
    wait::until("the pods run", || {
        let now = rig.look()?;
        let up =
            |(namespace, pod, name): (&str, &str, &str)| now.is_running(&Workload::new(namespace, pod, name));
        Ok(all.into_iter().all(up).then_some(()))
    })
}

pub(super) fn end() -> Result<()> {
    [SHOP, BATCH].into_iter().try_for_each(kube::delete_pods)
}

/// Always has work, and a sidecar that wakes ten times a second.
fn checkout() -> Value {
    let app = container_running("app", SPIN, &cpu("250m"));
    let sidecar = container_running("sidecar", "while :; do usleep 100000; done", &json!({}));
    pods::pod(SHOP, "checkout", &[app, sidecar])
}

/// Receives over the network and flushes to the disk; the other pods do neither.
fn web() -> Value {
    let ask = format!("while :; do wget -q -O /dev/null {}; usleep 50000; done", kube::url("/readyz"));
    let flush = "while :; do dd if=/dev/zero of=/data/journal bs=4096 count=1 conv=fsync 2>/dev/null; \
                 usleep 50000; done";
    let client = container_running("client", &ask, &json!({}));
    let mut journal = container_running("journal", flush, &json!({}));
    journal["volumeMounts"] = json!([{ "name": "data", "mountPath": "/data" }]);
    let mut pod = pods::pod(SHOP, "web", &[client, journal]);
    pod["spec"]["volumes"] = json!([{ "name": "data", "emptyDir": {} }]);
    pod["spec"]["hostNetwork"] = json!(true);
    pod
}

fn report() -> Value {
    pods::pod(BATCH, "report", &[container_running("main", &spin_on_all(), &cpu("1"))])
}

fn cpu(requested: &str) -> Value {
    json!({ "requests": { "cpu": requested } })
}
