//! Containers without a kubelet: runc starts them in the cgroup that a kubelet would have chosen.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use anyhow::{Context, Result, bail};
use serde_json::json;

use super::kernel::Hierarchy;
use super::parts::Parts;
use super::samples::Workload;
use super::{image, kube, machine, places, pods, processes, wait};
use crate::cmd;

/// Such a pod lives for about a fifth of a second. It works for a small part of that only, so that even two
/// CPUs can start ten of them a second.
const WORK: &str = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; usleep 170000";

/// The name of the only container of such a pod.
pub(super) const CONTAINER: &str = "main";

/// The runc program and the root file system that all of these containers share.
#[derive(Debug)]
pub(super) struct Bundle {
    runc: PathBuf,
    directory: PathBuf,
}

/// A pod with one container.
#[derive(Debug)]
pub(super) struct Short {
    pub(super) namespace: &'static str,
    pub(super) name: String,
}

impl Bundle {
    pub(super) fn make(parts: &Parts) -> Result<Self> {
        let directory = places::state().join("bundles");
        image::root(parts, &directory.join("root"))?;
        Ok(Self { runc: parts.runc(), directory })
    }

    fn runc(&self) -> Command {
        let mut command = cmd::tool(&self.runc);
        command.arg("--root").arg(self.directory.join("state"));
        command
    }

    /// Writes the runc configuration of one container.
    fn add(&self, id: &str, cgroup: &str) -> Result<PathBuf> {
        let config = json!({
            "ociVersion": "1.0.2",
            "process": {
                "args": ["sh", "-c", WORK], "cwd": "/", "env": ["PATH=/bin"], "user": { "uid": 0, "gid": 0 }
            },
            "root": { "path": self.directory.join("root"), "readonly": true },
            // runc fills /dev, so it must not be in the shared root.
            "mounts": [
                { "destination": "/proc", "type": "proc", "source": "proc" },
                { "destination": "/dev", "type": "tmpfs", "source": "tmpfs" },
            ],
            "linux": {
                "cgroupsPath": cgroup,
                "namespaces": [{ "type": "pid" }, { "type": "mount" }, { "type": "ipc" }, { "type": "uts" }],
            },
        });
        let bundle = self.directory.join(id);
        fs::create_dir_all(&bundle)?;
        fs::write(bundle.join("config.json"), config.to_string())?;
        Ok(bundle)
    }
}

impl Short {
    pub(super) fn workload(&self) -> Workload {
        Workload::new(self.namespace, &self.name, CONTAINER)
    }

    /// Runs the container from creation to removal; returns the CPU time of its cgroup in seconds.
    pub(super) fn run(&self, bundle: &Bundle) -> Result<f64> {
        let pod = Reported::create(self.namespace, &self.name)?;
        let pid = start(bundle, &pod.id, &pod.cgroup)?;
        pod.runs()?;
        wait::until("a short container ends", || Ok(has_ended(pid).then_some(())))?;
        let used = Hierarchy::of_cpu_time()?.usage(&pod.cgroup)?;
        run(bundle.runc().args(["delete", &pod.id]))?;
        pod.remove_cgroups()?;
        pod.delete()?;
        Ok(used as f64 / 1e9)
    }
}

/// A pod that the rig reports to the API server in a kubelet's place.
#[derive(Debug)]
pub(super) struct Reported {
    path: String,
    /// The id of its container.
    id: String,
    /// The cgroup that a kubelet would give its container.
    pub(super) cgroup: String,
}

impl Reported {
    pub(super) fn create(namespace: &str, name: &str) -> Result<Self> {
        let pod = pods::pod(namespace, name, &[pods::container(CONTAINER, 1, &json!({}))]);
        let pod = kube::create_pod(&pod)?;
        let uid = pod["metadata"]["uid"].as_str().context("a pod without UID")?;
        // A container id has 64 hexadecimal digits and must be unique.
        let id = uid.replace('-', "").repeat(2);
        let cgroup = format!("{}/kubepods/besteffort/pod{uid}/{id}", places::CGROUP);
        Ok(Self { path: format!("/api/v1/namespaces/{namespace}/pods/{name}"), id, cgroup })
    }

    pub(super) fn runs(&self) -> Result<()> {
        let state = json!({ "running": { "startedAt": null } });
        let container = json!({
            "name": CONTAINER, "containerID": format!("containerd://{}", self.id), "state": state,
            "image": image::NAME, "imageID": image::NAME, "ready": true, "restartCount": 0,
        });
        let status =
            json!({ "phase": "Running", "qosClass": "BestEffort", "containerStatuses": [container] });
        kube::patch_status(&self.path, &status)
    }

    /// The cgroup that a kubelet would give its container, in every hierarchy.
    pub(super) fn cgroups(&self) -> impl Iterator<Item = PathBuf> {
        let cgroup = self.cgroup.trim_start_matches('/');
        machine::hierarchies().into_iter().map(move |root| root.join(cgroup))
    }

    /// Removes the container's and the pod's cgroups, as far as they exist. A pod cgroup that stays becomes a
    /// workload without a name once the API server no longer knows the pod.
    pub(super) fn remove_cgroups(&self) -> Result<()> {
        for cgroup in self.cgroups() {
            remove_cgroup(&cgroup)?;
            cgroup.parent().map_or(Ok(()), remove_cgroup)?;
        }
        Ok(())
    }

    pub(super) fn delete(&self) -> Result<()> {
        kube::delete_now(&self.path)
    }
}

/// A task that has ended stays in its cgroup for a moment.
fn remove_cgroup(cgroup: &Path) -> Result<()> {
    wait::until("a cgroup is empty", || match fs::remove_dir(cgroup) {
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Some(())),
        removed => removed.with_context(|| format!("removing {}", cgroup.display())).map(Some),
    })
}

/// Starts a container and returns its first process, whose parent has already exited.
fn start(bundle: &Bundle, id: &str, cgroup: &str) -> Result<u32> {
    let directory = bundle.add(id, cgroup)?;
    let pid_file = directory.join("pid");
    let mut command = bundle.runc();
    command.args(["run", "--detach", "--pid-file"]).arg(&pid_file).arg("--bundle").arg(&directory);
    run(command.arg(id))?;
    fs::read_to_string(pid_file)?.trim().parse().context("runc told no process")
}

/// Whether the process has ended: it is gone, or it is a zombie that the supervisor will reap.
fn has_ended(pid: u32) -> bool {
    processes::field(pid, 3).is_none_or(|state| state == "Z")
}

fn run(command: &mut Command) -> Result<()> {
    // The container keeps its standard output open, so this must not be a pipe.
    let status = command.stdout(std::process::Stdio::null()).status().context("starting runc")?;
    if !status.success() {
        bail!("runc failed ({status})");
    }
    Ok(())
}
