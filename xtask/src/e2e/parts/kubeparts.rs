//! etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubelet and kubectl of one version, built
//! from `xtask/e2e/kubeparts` as one program.

use std::path::PathBuf;

use anyhow::Result;

use crate::e2e::places;
use crate::golang::Module;

/// The version that the parts report. It repeats `go.mod`, because the linker has to be given it.
pub(crate) const VERSION: &str = "v1.36.3";

pub(super) fn program() -> PathBuf {
    directory().join("kubeparts")
}

fn directory() -> PathBuf {
    places::laboratory().join("kubeparts")
}

pub(super) fn ensure() -> Result<()> {
    let about =
        format!("Building Kubernetes {VERSION}: etcd, API server, kubelet and others (ten minutes, once).");
    let module =
        Module { sources: "xtask/e2e/kubeparts", output: directory(), linker_flags: linker_flags(), about };
    module.ensure(&["."])
}

/// Sets the version; without it, the parts report a version older than all others.
fn linker_flags() -> String {
    let mut numbers = VERSION.trim_start_matches('v').split('.');
    let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    let values =
        [("gitVersion", VERSION), ("gitMajor", major), ("gitMinor", minor), ("gitTreeState", "clean")];
    let set = values.map(|(name, value)| format!(" -X k8s.io/component-base/version.{name}={value}"));
    format!("-s -w{}", set.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_that_of_the_module() {
        let module = include_str!("../../../e2e/kubeparts/go.mod");
        assert!(module.contains(&format!("k8s.io/kubernetes {VERSION}\n")), "go.mod has another version");
    }
}
