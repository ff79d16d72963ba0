//! Renders the chart with every set of values that has to work, and with some that it has to refuse.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::tools::Tools;
use crate::cmd::output;
use crate::say;

/// The namespace that it is installed into.
const NAMESPACE: &str = "observability";

/// The one value that has no default.
pub(super) const IMAGE: &str = "image.repository=registry.example.org/sysprobe";

/// The oldest Kubernetes that the chart supports, and a field that it does not know yet.
pub(super) const OLDEST: &str = "1.25.0";
const SINCE_1_30: &str = "recursiveReadOnly";

/// Invalid values, and a part of the error message that each must cause.
const REFUSED: [(&str, &str); 16] = [
    ("image.repository=", "image.repository"),
    ("podNames.source=docker", "source"),
    ("podNames.source=kubelet", "[pods] sources"),
    ("config=[pods]\nsources = [\"kubelet\"]", "podNames.source=kubelet"),
    ("podMonitor.enabled=true,serviceMonitor.enabled=true", "twice"),
    ("serviceAccount.create=false", "serviceAccount.name"),
    (
        "image.tag=v1,image.digest=sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        "only one",
    ),
    ("listenAddress=127.0.0.1", "listenAddress"),
    ("listenAddress=[::1]", "listenAddress"),
    ("seccompProfile.type=Localhost", "localhostProfile"),
    ("probes.liveness.successThreshold=2", "successThreshold"),
    ("podLabels.app\\.kubernetes\\.io/name=x", "app.kubernetes.io/name"),
    ("prot=9937", "prot"),
    ("port=99999", "port"),
    ("capabilities.extra={NET_ADMIN}", "capabilities"),
    ("image.digest=latest", "digest"),
];

/// Directories of a node with a socket of the container runtime somewhere below them. A read-only mount does
/// not keep a process from connecting to it, and who can connect is root on the node.
const ABOVE_SOCKETS: [&str; 6] =
    ["/", "/run", "/run/containerd", "/run/k3s/containerd", "/var/run", "/var/run/crio"];

/// The manifests of one set of values.
#[derive(Debug)]
pub(super) struct Rendered {
    pub(super) name: String,
    pub(super) manifests: String,
}

/// Lints and renders the chart with every set of values; the first set is empty.
pub(super) fn all(tools: &Tools) -> Result<Vec<Rendered>> {
    let mut found = vec![one(tools, "defaults", &["--set".into(), IMAGE.into()])?];
    for file in values()? {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        found.push(one(tools, &name, &["--values".into(), file.display().to_string()])?);
    }
    say::step(format_args!("The chart renders with {} sets of values.", found.len()));
    Ok(found)
}

fn one(tools: &Tools, name: &str, words: &[String]) -> Result<Rendered> {
    let mut lint = tools.command("helm");
    lint.args(["lint", "--strict", "--quiet"]).arg(super::directory()).args(words);
    output(&mut lint).with_context(|| format!("linting the chart with {name}"))?;
    // The oldest Kubernetes must not get fields that it does not know. This is rendered only: its schemas are
    // not available.
    let oldest = output(template(tools, NAMESPACE).args(words).args(["--kube-version", OLDEST]));
    let oldest = oldest.with_context(|| format!("rendering {name} for Kubernetes {OLDEST}"))?;
    ensure!(!oldest.contains(SINCE_1_30), "{name} has {SINCE_1_30} for Kubernetes {OLDEST}");
    let manifests = output(template(tools, NAMESPACE).args(words));
    let manifests = manifests.with_context(|| format!("rendering {name}"))?;
    if let Some(directory) = host_paths(&manifests).find(|path| ABOVE_SOCKETS.contains(path)) {
        bail!("{name} mounts {directory}, and with it the container runtime's socket");
    }
    Ok(Rendered { name: name.to_owned(), manifests })
}

/// The paths of the node that the manifests mount, where they are written in one line.
fn host_paths(manifests: &str) -> impl Iterator<Item = &str> {
    let paths = manifests.lines().filter_map(|line| line.split_once("hostPath: {path: "));
    paths.filter_map(|(_, rest)| rest.split([',', '}']).next().map(str::trim))
}

pub(super) fn template(tools: &Tools, namespace: &str) -> Command {
    let mut command = tools.command("helm");
    command.args(["template", "sysprobe"]).arg(super::directory()).args(["--namespace", namespace]);
    command
}

/// Checks that invalid values are refused before anything is installed.
pub(super) fn refused(tools: &Tools) -> Result<()> {
    for (values, part) in REFUSED {
        let tried = output(template(tools, NAMESPACE).args(["--set", IMAGE, "--set", values]));
        let said = tried.err().with_context(|| format!("the chart takes {values}"))?.to_string();
        // The message also repeats the values.
        let said = said.rsplit("Error:").next().unwrap_or_default();
        ensure!(said.contains(part), "with {values} nothing is said of {part}: {said}");
    }
    say::step(format_args!("{} sets of values that make no sense are refused.", REFUSED.len()));
    Ok(())
}

fn values() -> Result<Vec<PathBuf>> {
    let directory = super::directory().join("ci");
    let entries =
        fs::read_dir(&directory).with_context(|| format!("looking into {}", directory.display()))?;
    let mut files: Vec<_> = entries.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    files.retain(|file: &PathBuf| file.extension() == Some(Path::new("yaml").as_os_str()));
    files.sort();
    ensure!(!files.is_empty(), "{} is empty", directory.display());
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_the_node_are_found() {
        let manifests = "volumes:\n  - name: a\n    hostPath: {path: /run/containerd, type: Directory}\n  \
                         - name: b\n    hostPath: {path: /sys}\n";
        assert_eq!(host_paths(manifests).collect::<Vec<_>>(), ["/run/containerd", "/sys"]);
    }
}
