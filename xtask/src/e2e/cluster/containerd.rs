//! The container runtime in its usual directories, which are the rig's own file systems. Its answers about
//! its containers are the truth that the agent is compared with.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::cmd;
use crate::e2e::parts::Parts;
use crate::e2e::service::Service;
use crate::e2e::{image, places, processes};

pub(in crate::e2e) const SOCKET: &str = "/run/containerd/containerd.sock";

#[derive(Debug)]
pub(in crate::e2e) struct Runtime {
    parts: Parts,
    _service: Service,
}

/// A container as the runtime knows it.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::e2e) struct Container {
    pub(in crate::e2e) id: String,
    pub(in crate::e2e) namespace: String,
    pub(in crate::e2e) pod: String,
    pub(in crate::e2e) uid: String,
    /// The name in the pod's specification; `None` for the sandbox, which holds the pod's namespaces.
    pub(in crate::e2e) name: Option<String>,
    /// Its first process, while it runs.
    pub(in crate::e2e) pid: Option<u32>,
    /// The start time of that process, in seconds since boot.
    pub(in crate::e2e) started: Option<f64>,
}

impl Runtime {
    pub(super) fn start(parts: &Parts) -> Result<Self> {
        network()?;
        let config = places::state().join("containerd.toml");
        fs::write(&config, configuration(parts))?;
        let mut command = parts.packaged("containerd");
        let mut service = Service::start("containerd", command.arg("--config").arg(config))?;
        let parts = parts.clone();
        service.ready(|| cmd::capture(ctr(&parts).arg("version")).is_some())?;
        Ok(Self { parts, _service: service })
    }

    pub(in crate::e2e) fn import(&self, image: &Path) -> Result<()> {
        self.ask(&["images", "import", &image.display().to_string()]).map(drop)
    }

    /// Every container, running or not.
    pub(in crate::e2e) fn containers(&self) -> Result<Vec<Container>> {
        let tasks = self.ask(&["tasks", "list"])?;
        let mut found = Vec::new();
        for id in self.ask(&["containers", "list", "--quiet"])?.split_whitespace() {
            // A container that has been removed since does not count.
            let Ok(info) = self.ask(&["containers", "info", id]) else { continue };
            let info: Value = serde_json::from_str(&info)?;
            found.extend(container(id, &info["Labels"], running(&tasks, id)));
        }
        Ok(found)
    }

    fn ask(&self, words: &[&str]) -> Result<String> {
        let output = ctr(&self.parts).args(words).output().context("starting ctr")?;
        if !output.status.success() {
            bail!("ctr {} failed: {}", words.join(" "), String::from_utf8_lossy(&output.stderr).trim_end());
        }
        Ok(String::from_utf8(output.stdout)?)
    }
}

fn ctr(parts: &Parts) -> std::process::Command {
    let mut command = parts.packaged("ctr");
    // The runtime's namespace for containers that the kubelet starts.
    command.args(["--address", SOCKET, "--namespace", "k8s.io"]);
    command
}

/// The first process of a container, from the lines `ID PID STATUS`.
fn running(tasks: &str, id: &str) -> Option<u32> {
    let mut fields =
        tasks.lines().map(str::split_whitespace).find(|fields| fields.clone().next() == Some(id))?;
    let (pid, status) = (fields.nth(1)?, fields.next()?);
    (status == "RUNNING").then(|| pid.parse().ok())?
}

fn container(id: &str, labels: &Value, pid: Option<u32>) -> Option<Container> {
    let label = |name: &str| labels[format!("io.kubernetes.{name}")].as_str().map(str::to_owned);
    Some(Container {
        id: id.to_owned(),
        namespace: label("pod.namespace")?,
        pod: label("pod.name")?,
        uid: label("pod.uid")?,
        name: label("container.name"),
        pid,
        started: pid.and_then(processes::started),
    })
}

/// Configures the CNI plugins that connect pods to the node: a bridge, and addresses from a file.
fn network() -> Result<()> {
    let directory = places::state().join("cni.d");
    fs::create_dir_all(&directory)?;
    let addresses = json!({
        "type": "host-local",
        "ranges": [[{ "subnet": "10.244.0.0/22" }]],
        "routes": [{ "dst": "0.0.0.0/0" }],
    });
    let bridge =
        json!({ "type": "bridge", "bridge": "pods0", "isGateway": true, "ipMasq": false, "ipam": addresses });
    let list = json!({ "cniVersion": "1.0.0", "name": "rig", "plugins": [bridge] });
    fs::write(directory.join("10-rig.conflist"), list.to_string()).context("configuring the pods' network")
}

fn configuration(parts: &Parts) -> String {
    let (pause, cni) = (image::NAME, parts.cni());
    let (cni, networks) = (cni.display(), places::state().join("cni.d"));
    let networks = networks.display();
    // Without CAP_SYS_RESOURCE, as in many build machines, a process cannot lower its `oom_score_adj`, and
    // every pod would fail. By default, containerd creates `opt` in the root of the file system.
    format!(
        r#"version = 2
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs",
]
[grpc]
  address = "{SOCKET}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{cni}"
    conf_dir = "{networks}"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
[plugins."io.containerd.internal.v1.opt"]
  path = "/var/lib/containerd/opt"
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_are_read_from_what_ctr_prints() {
        let tasks = "TASK    PID    STATUS\nab      11     RUNNING\ncd      12     STOPPED\n";
        assert_eq!(running(tasks, "ab"), Some(11));
        assert_eq!(running(tasks, "cd"), None);
        assert_eq!(running(tasks, "ef"), None);
        let labels = json!({
            "io.kubernetes.pod.namespace": "n", "io.kubernetes.pod.name": "p", "io.kubernetes.pod.uid": "u",
        });
        let sandbox = container("ab", &labels, Some(11)).unwrap();
        assert_eq!((&*sandbox.namespace, &*sandbox.pod, &sandbox.name), ("n", "p", &None));
        assert_eq!(container("ab", &json!({}), None), None);
    }
}
