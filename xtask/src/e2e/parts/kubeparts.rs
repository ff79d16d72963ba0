//! etcd, kube-apiserver, kubelet and kubectl of one version, built from `xtask/e2e/kubeparts` as one program. They are
//! plain Go modules; nobody offers them ready-made where this has to work.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use super::{complete, is_complete};
use crate::e2e::places;
use crate::{apt, cmd, paths, say};

const SOURCES: [&str; 4] = ["go.mod", "go.sum", "main.go", "proxy.go"];

/// The oldest Go that the modules take (`go` in `go.mod`).
const GO: (u32, u32) = (1, 26);

/// What the parts call themselves. It is the version in `go.mod`, which the linker has to be told again.
const VERSION: &str = "v1.36.3";

pub(super) fn program() -> PathBuf {
    directory().join("kubeparts")
}

fn directory() -> PathBuf {
    places::laboratory().join("kubeparts")
}

pub(super) fn ensure() -> Result<()> {
    let sources = paths::root().join("xtask/e2e/kubeparts");
    let texts: Vec<String> = SOURCES
        .iter()
        .map(|name| fs::read_to_string(sources.join(name)).with_context(|| format!("reading {name}")))
        .collect::<Result<_>>()?;
    let wanted = texts.concat();
    if program().exists() && is_complete(&directory(), &wanted) {
        return Ok(());
    }
    let go = go()?;
    say::step(format_args!(
        "Building Kubernetes {VERSION}: etcd, kube-apiserver, kubelet, kubectl (ten minutes, once)."
    ));
    fs::create_dir_all(directory())?;
    let mut build = cmd::tool(go);
    build.current_dir(&sources).env("CGO_ENABLED", "0");
    build
        .args(["build", "-mod=readonly", "-trimpath", "-ldflags", &linker_flags(), "-o"])
        .arg(program())
        .arg(".");
    cmd::run(&mut build)?;
    complete(&directory(), &wanted)
}

/// Without them the parts take themselves for a version before all others.
fn linker_flags() -> String {
    let mut numbers = VERSION.trim_start_matches('v').split('.');
    let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    let values =
        [("gitVersion", VERSION), ("gitMajor", major), ("gitMinor", minor), ("gitTreeState", "clean")];
    let set = values.map(|(name, value)| format!(" -X k8s.io/component-base/version.{name}={value}"));
    format!("-s -w{}", set.concat())
}

/// Finds a Go that is new enough, or installs the distribution's.
fn go() -> Result<PathBuf> {
    if let Some(go) = find() {
        return Ok(go);
    }
    if apt::available() {
        apt::ensure(&["golang-go"], "Kubernetes' parts are written in Go")?;
    }
    let Some(go) = find() else {
        bail!("they need Go {}.{} or newer: install it, put it on PATH, then run this again", GO.0, GO.1);
    };
    Ok(go)
}

fn find() -> Option<PathBuf> {
    // Where Go's own archive unpacks; a fresh shell may not have it on its path.
    let usual = PathBuf::from("/usr/local/go/bin/go");
    let candidates = paths::find_programs("go").into_iter().chain([usual]);
    candidates.filter(|go| go.is_file()).find(|go| {
        let version = cmd::capture(cmd::tool(go).args(["env", "GOVERSION"]));
        version.and_then(|version| parse(&version)).is_some_and(|version| version >= GO)
    })
}

/// `go1.26.8` as numbers.
fn parse(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.trim().strip_prefix("go")?.split('.');
    let major = numbers.next()?.parse().ok()?;
    let minor: String = numbers.next()?.chars().take_while(char::is_ascii_digit).collect();
    Some((major, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_go_are_compared_as_numbers() {
        assert_eq!(parse("go1.26.8\n"), Some((1, 26)));
        assert_eq!(parse("go1.30rc1"), Some((1, 30)));
        assert_eq!(parse("devel"), None);
        assert!(parse("go1.9").unwrap() < GO);
    }

    #[test]
    fn the_version_is_that_of_the_module() {
        let module = include_str!("../../../e2e/kubeparts/go.mod");
        assert!(module.contains(&format!("k8s.io/kubernetes {VERSION}\n")), "go.mod has another version");
        assert!(module.contains(&format!("\ngo {}.{}", GO.0, GO.1)), "go.mod wants another Go");
    }
}
