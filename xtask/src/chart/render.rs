//! The chart with every set of values that it is to work with, and with some that it has to refuse.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::tools::{Tools, output};
use crate::say;

/// Where it is installed to.
const NAMESPACE: &str = "observability";

/// Values that make no sense, and a part of what has to be said of them.
const REFUSED: [(&str, &str); 6] = [
    ("podNames.source=docker", "source"),
    ("podNames.source=kubelet", "[pods] sources"),
    ("prot=9937", "prot"),
    ("port=99999", "port"),
    ("capabilities.extra={NET_ADMIN}", "capabilities"),
    ("image.digest=latest", "digest"),
];

/// What one set of values makes.
#[derive(Debug)]
pub(super) struct Rendered {
    pub(super) name: String,
    pub(super) manifests: String,
}

/// Lints and renders all; the first is without any values.
pub(super) fn all(tools: &Tools) -> Result<Vec<Rendered>> {
    let mut found = vec![one(tools, "defaults", &[])?];
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
    let manifests = output(template(tools, NAMESPACE).args(words));
    Ok(Rendered { name: name.to_owned(), manifests: manifests.with_context(|| format!("rendering {name}"))? })
}

pub(super) fn template(tools: &Tools, namespace: &str) -> Command {
    let mut command = tools.command("helm");
    command.args(["template", "sysprobe"]).arg(super::directory()).args(["--namespace", namespace]);
    command
}

/// What cannot work is said before anything is installed.
pub(super) fn refused(tools: &Tools) -> Result<()> {
    for (values, part) in REFUSED {
        let tried = output(template(tools, NAMESPACE).args(["--set", values]));
        let said = tried.err().with_context(|| format!("the chart takes {values}"))?.to_string();
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
