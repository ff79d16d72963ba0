//! The kubelet of the only node.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::containerd::SOCKET;
use super::{NODE, NODE_ADDRESS};
use crate::e2e::parts::Parts;
use crate::e2e::service::Service;
use crate::e2e::{http, pki, places};

/// The kubelet's API, at the node's address.
pub(in crate::e2e) const URL: &str = "https://10.243.0.1:10250";

const HEALTH_PORT: u16 = 10248;

/// The directory of static pods.
fn manifests() -> PathBuf {
    places::state().join("manifests")
}

pub(super) fn start(parts: &Parts) -> Result<Service> {
    fs::create_dir_all(manifests())?;
    let config = places::state().join("kubelet.yaml");
    fs::write(&config, configuration().to_string())?;
    let mut command = parts.kubernetes("kubelet");
    command.arg("--config").arg(config).arg("--kubeconfig").arg(pki::file("kubelet", "kubeconfig"));
    command.args(["--hostname-override", NODE, "--node-ip", NODE_ADDRESS]);
    let mut service = Service::start("kubelet", &mut command)?;
    service.ready(|| http::get(HEALTH_PORT, "/healthz").is_ok_and(|answer| answer.status == 200))?;
    Ok(service)
}

/// Has the kubelet run a static pod, which the API server only mirrors.
pub(in crate::e2e) fn add_static_pod(name: &str, manifest: &Value) -> Result<()> {
    // The kubelet may read the directory at any time, so the file must appear complete.
    let new = places::state().join("manifest.new");
    fs::write(&new, manifest.to_string())?;
    fs::rename(new, manifests().join(name)).context("placing a manifest")
}

pub(in crate::e2e) fn remove_static_pod(name: &str) -> Result<()> {
    fs::remove_file(manifests().join(name)).context("removing a manifest")
}

fn configuration() -> Value {
    // How long the kubelet keeps trusting known clients while the API server is away.
    let remembered = "1h";
    let authority = pki::authority_file();
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "failCgroupV1": false,
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": places::CGROUP,
        "containerRuntimeEndpoint": format!("unix://{SOCKET}"),
        "address": NODE_ADDRESS,
        "healthzPort": HEALTH_PORT,
        "authentication": {
            "anonymous": { "enabled": false },
            "webhook": { "enabled": true, "cacheTTL": remembered },
            "x509": { "clientCAFile": authority },
        },
        "authorization": { "mode": "Webhook", "webhook": { "cacheAuthorizedTTL": remembered } },
        "tlsCertFile": pki::file("kubelet-serving", "crt"),
        "tlsPrivateKeyFile": pki::file("kubelet-serving", "key"),
        "staticPodPath": manifests(),
        "volumePluginDir": places::state().join("volume-plugins"),
        "resolvConf": "",
        "makeIPTablesUtilChains": false,
        "failSwapOn": false,
        "fileCheckFrequency": "1s",
        // Restarts a crashing pod quickly, so that it crashes often during a scenario.
        "featureGates": { "KubeletCrashLoopBackOffMax": true },
        "crashLoopBackOff": { "maxContainerRestartPeriod": "2s" },
        // A build machine's disk may be nearly full; the rig must not evict pods for it.
        "evictionHard": { "memory.available": "50Mi", "nodefs.available": "0%", "imagefs.available": "0%" },
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
    })
}
