//! A cluster of one node: etcd, API server, controllers, scheduler, container runtime, kubelet, and the two
//! proxies that the rig itself uses. Everything listens on loopback or on the node's address, inside the
//! rig's own network.

pub(super) mod apiserver;
pub(super) mod audit;
mod containerd;
mod controllers;
pub(super) mod etcd;
pub(super) mod kubelet;
mod network;
pub(super) mod proxy;

use std::fs;
use std::time::Instant;

use anyhow::{Context, Result};

use super::kube;
use super::parts::Parts;
use super::service::Service;
use super::{image, pki, places};
use crate::{cmd, say};

pub(super) use containerd::{Container, Runtime, SOCKET as CRI_SOCKET};

pub(super) const NODE: &str = "node1";

/// The kubelet rejects a loopback address for its node.
const NODE_ADDRESS: &str = "10.243.0.1";

/// The agent's service account: namespace and name.
pub(super) const AGENT: (&str, &str) = ("sysprobe", "sysprobe");

/// The whole cluster; ends when it is dropped.
#[derive(Debug)]
pub(super) struct Cluster {
    pub(super) parts: Parts,
    pub(super) runtime: Runtime,
    api: Option<Service>,
    kubelet: Option<Service>,
    _others: [Service; 3],
    _controllers: [Service; 2],
}

impl Cluster {
    /// Starts every part and waits until the node is ready for pods.
    pub(super) fn start() -> Result<Self> {
        let start = Instant::now();
        let parts = Parts::found();
        hide()?;
        network::up(NODE_ADDRESS)?;
        clear_logs()?;
        make_certificates()?;
        let etcd = etcd::start(&parts)?;
        let api = Some(apiserver::start(&parts)?);
        let door = kube::open_door(&parts)?;
        let controllers = controllers::start(&parts)?;
        let proxy = proxy::start(&parts)?;
        let runtime = Runtime::start(&parts)?;
        runtime.import(&image::make(&parts).context("making the image")?)?;
        let kubelet = Some(kubelet::start(&parts)?);
        kube::node_ready(NODE)?;
        let cluster =
            Self { parts, runtime, api, kubelet, _others: [etcd, door, proxy], _controllers: controllers };
        say::step(format_args!("The cluster is up after {:.1} s.", start.elapsed().as_secs_f64()));
        Ok(cluster)
    }

    /// Kills the API server without a graceful stop, as a node failure would.
    pub(super) fn kill_api(&mut self) {
        self.api = None;
    }

    pub(super) fn start_api(&mut self) -> Result<()> {
        self.api = Some(apiserver::start(&self.parts)?);
        Ok(())
    }

    /// The API server's resident memory, in bytes.
    pub(super) fn api_memory(&self) -> Option<f64> {
        self.api.as_ref()?.memory()
    }

    /// From now on no pod starts or ends, and cgroups without a pod are not cleaned up.
    pub(super) fn stop_kubelet(&mut self) -> Result<()> {
        self.kubelet.take().map_or(Ok(()), Service::stop)
    }

    pub(super) fn start_kubelet(&mut self) -> Result<()> {
        self.kubelet = Some(kubelet::start(&self.parts)?);
        Ok(())
    }
}

/// Mounts in-memory file systems over the directories that the parts write to. The mount namespace ends with
/// its last process.
fn hide() -> Result<()> {
    // Container runtimes propagate mounts to pods, which needs a shared root. The sharing stays within this
    // mount namespace.
    cmd::run(cmd::tool("mount").args(["--make-rshared", "/"]))?;
    let state = places::state();
    let places = places::HIDDEN.iter().map(std::path::Path::new).chain([&*state]);
    for place in places {
        cmd::run(cmd::tool("mount").args(["-t", "tmpfs", "-o", "mode=755", "sysprobe-e2e"]).arg(place))?;
    }
    Ok(())
}

fn make_certificates() -> Result<()> {
    let node = pki::Node { name: NODE, address: NODE_ADDRESS };
    let parts = [controllers::MANAGER, controllers::SCHEDULER];
    pki::make(&node, &apiserver::url(), network::SERVICE_ADDRESS, parts).context("making certificates")
}

fn clear_logs() -> Result<()> {
    for entry in fs::read_dir(places::logs())? {
        fs::remove_file(entry?.path())?;
    }
    Ok(())
}
