//! The pods that live as long as the rig: every quality-of-service class, and every kind of pod that an agent
//! might get wrong. Each container works a little all the time, so that each has data.

use serde_json::{Value, json};

use super::cluster::NODE;
use super::image;
use super::samples::Workload;

pub(super) const HOME: &str = "e2e";
/// Has a pod with the same name as one in `HOME`.
pub(super) const OTHER: &str = "e2e-other";
pub(super) const NAMESPACES: [&str; 2] = [HOME, OTHER];

/// Each pod has its own name as the value of this label.
pub(super) const LABEL: &str = "app";

/// The pod that ends and is restarted over and over.
pub(super) const CRASHING: &str = "crash-loop";

/// A container whose first process does `share` steps of work and sleeps, in a loop.
pub(super) fn container(name: &str, share: u32, resources: &Value) -> Value {
    let work = format!(
        "while :; do i=0; while [ $i -lt {} ]; do i=$((i+1)); done; usleep 100000; done",
        share * 2000
    );
    container_running(name, &work, resources)
}

pub(super) fn container_running(name: &str, line: &str, resources: &Value) -> Value {
    json!({
        "name": name,
        "image": image::NAME,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", line],
        "resources": resources,
    })
}

pub(super) fn pod(namespace: &str, name: &str, containers: &[Value]) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "namespace": namespace, "name": name, "labels": { LABEL: name } },
        "spec": {
            "nodeName": NODE,
            "containers": containers,
            "terminationGracePeriodSeconds": 1,
            "dnsPolicy": "Default",
            "automountServiceAccountToken": false,
        },
    })
}

pub(super) fn residents() -> Vec<Value> {
    let nothing = json!({});
    let some = json!({ "requests": { "cpu": "20m", "memory": "16Mi" } });
    let all = json!({
        "requests": { "cpu": "200m", "memory": "32Mi" },
        "limits": { "cpu": "200m", "memory": "32Mi" },
    });
    let mut guaranteed = pod(HOME, "guaranteed", &[container("main", 4, &all)]);
    guaranteed["spec"]["initContainers"] = json!([container_running("init", "usleep 200000", &all)]);
    let mut host_network = pod(HOME, "host-network", &[container("main", 5, &nothing)]);
    host_network["spec"]["hostNetwork"] = json!(true);
    let crash = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; usleep 500000; exit 1";
    vec![
        pod(HOME, "best-effort", &[container("main", 1, &nothing)]),
        pod(OTHER, "best-effort", &[container("main", 6, &nothing)]),
        pod(HOME, "two-containers", &[container("web", 2, &some), container("sidecar", 3, &nothing)]),
        guaranteed,
        host_network,
        pod(HOME, CRASHING, &[container_running("main", crash, &nothing)]),
    ]
}

/// The file name and the manifest of a static pod; the kubelet appends the node's name to the pod's name.
pub(super) fn static_pod() -> (&'static str, Value) {
    let mut manifest = pod(HOME, "static", &[container("main", 7, &json!({}))]);
    remove_node(&mut manifest);
    ("static", manifest)
}

/// Another static pod, for the time without an API server.
pub(super) fn late_static_pod() -> (&'static str, Value) {
    let mut manifest = pod(HOME, "late", &[container("main", 2, &json!({}))]);
    remove_node(&mut manifest);
    ("late", manifest)
}

/// A static pod needs no node name: it runs on the node that has its file.
fn remove_node(manifest: &mut Value) {
    if let Some(spec) = manifest["spec"].as_object_mut() {
        spec.remove("nodeName");
    }
}

/// Containers that must run once all pods are up. The crashing pod is not among them: it may be down at any
/// time.
pub(super) fn residents_running() -> Vec<Workload> {
    let home = |pod: &str, container: &str| Workload::new(HOME, pod, container);
    vec![
        home("best-effort", "main"),
        Workload::new(OTHER, "best-effort", "main"),
        home("two-containers", "web"),
        home("two-containers", "sidecar"),
        home("guaranteed", "main"),
        home("host-network", "main"),
        home(&format!("static-{NODE}"), "main"),
    ]
}
