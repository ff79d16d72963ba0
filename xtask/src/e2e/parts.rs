//! The programs that the rig runs: found under `target/e2e`, otherwise built or unpacked into it. Nothing is
//! installed on the machine, so no package starts a service.

mod kubeparts;
mod packages;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::{apt, cmd};

/// Packages of the machine itself.
const TOOLS: [&str; 6] = ["curl", "iproute2", "iptables", "openssl", "tar", "util-linux"];

/// The directories of the programs.
#[derive(Clone, Debug)]
pub(super) struct Parts {
    kubeparts: PathBuf,
    packages: PathBuf,
}

impl Parts {
    /// Builds or fetches what is missing.
    pub(super) fn ensure() -> Result<Self> {
        if apt::available() {
            apt::ensure(&TOOLS, "The rig makes networks, certificates and images with them")?;
        }
        packages::ensure().context("containerd, runc and their helpers cannot be had")?;
        kubeparts::ensure().context("Kubernetes' own parts cannot be built")?;
        Ok(Self::found())
    }

    pub(super) fn found() -> Self {
        Self { kubeparts: kubeparts::program(), packages: packages::directory() }
    }

    /// One of `etcd`, `kube-apiserver`, `kubelet`, `kubectl` and `proxy`, among others.
    pub(super) fn kubernetes(&self, part: &str) -> Command {
        let mut command = cmd::tool(&self.kubeparts);
        command.arg(part);
        command
    }

    /// A program of a package, such as `containerd`. Its search path includes the other packages.
    pub(super) fn packaged(&self, name: &str) -> Command {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let ours = ["usr/sbin", "usr/bin", "bin"].map(|below| self.packages.join(below));
        let paths = ours.iter().cloned().chain(std::env::split_paths(&path));
        let program = ours.iter().map(|directory| directory.join(name)).find(|file| file.exists());
        let mut command = cmd::tool(program.unwrap_or_else(|| name.into()));
        if let Ok(paths) = std::env::join_paths(paths) {
            command.env("PATH", paths);
        }
        command
    }

    pub(super) fn busybox(&self) -> PathBuf {
        self.packages.join("bin/busybox")
    }

    pub(super) fn cni(&self) -> PathBuf {
        self.packages.join("usr/lib/cni")
    }

    pub(super) fn runc(&self) -> PathBuf {
        self.packages.join("usr/sbin/runc")
    }
}

/// Whether `directory` holds what `wanted` describes: the file `complete` is written last.
fn is_complete(directory: &Path, wanted: &str) -> bool {
    std::fs::read_to_string(directory.join("complete")).is_ok_and(|have| have == wanted)
}

fn complete(directory: &Path, wanted: &str) -> Result<()> {
    Ok(std::fs::write(directory.join("complete"), wanted)?)
}
