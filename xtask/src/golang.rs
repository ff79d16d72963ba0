//! Builds Go programs from source: the Kubernetes tools are written in Go, and not every machine offers them
//! as packages. Each set is a module of this repository that pins every version. It is built once, into its
//! own directory.

use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::{apt, cmd, paths, say};

/// The oldest Go version that the modules accept (`go` in each `go.mod`).
pub(crate) const GO: (u32, u32) = (1, 26);

/// Programs of one module.
pub(crate) struct Module<'a> {
    /// The module's directory, relative to the repository's root.
    pub(crate) sources: &'a str,
    /// The directory that its programs are built into.
    pub(crate) output: PathBuf,
    /// For `-ldflags`.
    pub(crate) linker_flags: String,
    /// The step to announce before the build, with the time that it takes.
    pub(crate) about: String,
}

impl Module<'_> {
    /// Installs the packages `what` with `go install` if the sources have changed since the last build.
    pub(crate) fn ensure(&self, what: &[&str]) -> Result<()> {
        let sources = paths::root().join(self.sources);
        let wanted = texts(&sources)?;
        let mark = self.output.join("complete");
        if fs::read_to_string(&mark).is_ok_and(|have| have == wanted) {
            return Ok(());
        }
        let go = go()?;
        say::step(&self.about);
        fs::create_dir_all(&self.output)?;
        let mut build = cmd::tool(go);
        build.current_dir(&sources).env("CGO_ENABLED", "0").env("GOBIN", &self.output);
        build.args(["install", "-mod=readonly", "-trimpath", "-ldflags", &self.linker_flags]).args(what);
        cmd::run(&mut build)?;
        fs::write(mark, wanted).context("noting what is built")
    }
}

/// Finds or installs Go, which everything here needs.
pub(crate) fn require() -> Result<()> {
    go().map(drop)
}

/// A short hash that changes with the sources.
pub(crate) fn fingerprint(sources: &str) -> Result<String> {
    let mut hasher = DefaultHasher::new();
    texts(&paths::root().join(sources))?.hash(&mut hasher);
    Ok(format!("{:016x}", hasher.finish()))
}

/// Fetches the dependencies of a module of this repository.
pub(crate) fn fetch(sources: &str) -> Result<()> {
    let mut download = cmd::tool(go()?);
    cmd::output(download.args(["mod", "download"]).current_dir(paths::root().join(sources))).map(drop)
}

/// The directory of a third-party module, with all of its files.
pub(crate) fn download(module: &str, directory: &Path) -> Result<PathBuf> {
    let mut download = cmd::tool(go()?);
    download.args(["mod", "download", "-json", module]).current_dir(directory);
    let printed = cmd::capture(&mut download).with_context(|| format!("Go cannot fetch {module}"))?;
    let printed: serde_json::Value = serde_json::from_str(&printed).context("reading what Go says of it")?;
    let directory = printed["Dir"].as_str().with_context(|| format!("{module} is nowhere: {printed}"))?;
    Ok(directory.into())
}

/// The module's own files as one text; they also pin its dependencies.
fn texts(sources: &Path) -> Result<String> {
    let entries = fs::read_dir(sources).with_context(|| format!("looking into {}", sources.display()))?;
    let mut files: Vec<_> = entries.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    files.sort();
    let text =
        |file: &PathBuf| fs::read_to_string(file).with_context(|| format!("reading {}", file.display()));
    files.iter().map(text).collect()
}

/// Finds a Go that is new enough, or installs the distribution's.
fn go() -> Result<PathBuf> {
    if let Some(go) = find() {
        return Ok(go);
    }
    if apt::available() {
        apt::ensure(&["golang-go"], "Kubernetes' programs are written in Go")?;
    }
    let Some(go) = find() else {
        bail!("this needs Go {}.{} or newer: install it, put it on PATH, then run this again", GO.0, GO.1);
    };
    Ok(go)
}

fn find() -> Option<PathBuf> {
    // Go's own archive unpacks here; a fresh shell may not have it on its path.
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
    fn every_module_wants_this_go() {
        for sources in ["xtask/chart", "xtask/e2e/kubeparts"] {
            let module = fs::read_to_string(paths::root().join(sources).join("go.mod")).unwrap();
            assert!(module.contains(&format!("\ngo {}.{}", GO.0, GO.1)), "{sources} wants another Go");
        }
    }
}
