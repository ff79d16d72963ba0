//! Plain manifests for kustomize, made from the chart: `base` with the chart's defaults, and components for
//! optional parts of a cluster.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use super::render;
use super::tools::Tools;
use crate::cmd::output;
use crate::{paths, say};

/// The namespace of the base.
const NAMESPACE: &str = "sysprobe";

/// A file, with the chart's templates and values that it is made from.
struct File {
    path: &'static str,
    templates: &'static [&'static str],
    values: &'static [&'static str],
}

const FILES: [File; 2] = [
    File {
        path: "base/sysprobe.yaml",
        templates: &["daemonset", "networkpolicy", "rbac", "serviceaccount"],
        // The name by which `images` of a kustomization finds it.
        values: &["image.repository=sysprobe"],
    },
    File {
        path: "components/prometheus-operator/sysprobe.yaml",
        templates: &["podmonitor", "prometheusrule"],
        values: &["image.repository=sysprobe", "podMonitor.enabled=true", "prometheusRule.enabled=true"],
    },
];

/// The directories that are built to check the manifests.
const BUILT: [&str; 2] = ["base", "overlays/prometheus-operator"];

fn directory() -> PathBuf {
    paths::root().join("deploy/kustomize")
}

/// Writes the manifests, or with `check` fails if one differs from the chart's output.
pub(super) fn write(tools: &Tools, check: bool) -> Result<()> {
    for file in &FILES {
        let path = directory().join(file.path);
        let new = manifests(tools, file)?;
        let old = fs::read_to_string(&path).unwrap_or_default();
        if old == new {
            continue;
        }
        if check {
            bail!("deploy/kustomize/{} is not what the chart makes: run `cargo xtask chart`", file.path);
        }
        fs::write(&path, new).with_context(|| format!("writing {}", path.display()))?;
        say::step(format_args!("Wrote deploy/kustomize/{}.", file.path));
    }
    Ok(())
}

fn manifests(tools: &Tools, file: &File) -> Result<String> {
    let mut command = render::template(tools, NAMESPACE);
    // The manifests may be applied to the oldest supported cluster.
    command.args(["--kube-version", render::OLDEST]);
    for name in file.templates {
        command.args(["--show-only", &format!("templates/{name}.yaml")]);
    }
    for value in file.values {
        command.args(["--set", value]);
    }
    let printed = output(&mut command).with_context(|| format!("rendering {}", file.path))?;
    // Helm does not manage these objects, so Helm's own labels would be wrong.
    let is_ours = |line: &&str| !line.contains("managed-by: Helm") && !line.contains("helm.sh/chart:");
    let lines: Vec<_> = printed.lines().filter(is_ours).map(str::trim_end).collect();
    Ok(format!(
        "# Made from deploy/helm/sysprobe by `cargo xtask chart`: change it there.\n{}\n",
        lines.join("\n")
    ))
}

/// The output of `kustomize build` for each directory, with its name.
pub(super) fn built(tools: &Tools) -> Result<Vec<(String, String)>> {
    let build = |name: &str| {
        let manifests = output(tools.command("kustomize").arg("build").arg(directory().join(name)));
        Ok((format!("deploy/kustomize/{name}"), manifests.with_context(|| format!("building {name}"))?))
    };
    BUILT.into_iter().map(build).collect()
}
