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

/// Where it answers; its address is that of the node.
pub(in crate::e2e) const URL: &str = "https://10.243.0.1:10250";

const HEALTH_PORT: u16 = 10248;

/// Where it looks for pods of its own.
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

/// Has the kubelet run a pod of its own, which the API server only mirrors.
pub(in crate::e2e) fn add_static_pod(name: &str, manifest: &Value) -> Result<()> {
    // The kubelet may look at any moment: it shall find the whole file.
    let new = places::state().join("manifest.new");
    fs::write(&new, manifest.to_string())?;
    fs::rename(new, manifests().join(name)).context("placing a manifest")
}

pub(in crate::e2e) fn remove_static_pod(name: &str) -> Result<()> {
    fs::remove_file(manifests().join(name)).context("removing a manifest")
}

fn configuration() -> Value {
    // While the API server is away, the kubelet trusts the clients that it trusted before, for so long.
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
        // A pod that crashes does so again and again, as long as we look.
        "featureGates": { "KubeletCrashLoopBackOffMax": true },
        "crashLoopBackOff": { "maxContainerRestartPeriod": "2s" },
        // The disk of a build machine may be nearly full, which is none of the rig's business.
        "evictionHard": { "memory.available": "50Mi", "nodefs.available": "0%", "imagefs.available": "0%" },
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
    })
}
