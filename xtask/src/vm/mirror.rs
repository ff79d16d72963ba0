//! Fetches packages from other releases of the distribution without touching this machine's own package
//! lists.
//!
//! The machine's own sources name the mirror. Every suite has its own list, cache and state in our directory;
//! apt checks signatures as usual.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::kernels;
use crate::build::Arch;
use crate::{cmd, say};

/// The keys that sign all of the distribution's releases; package `debian-archive-keyring`.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// One suite of the mirror, for one architecture.
pub(super) struct Suite {
    name: &'static str,
    arch: Arch,
    directory: PathBuf,
}

/// One `URIs`, `Suites` pair of the machine's sources.
#[derive(Debug, PartialEq, Eq)]
struct Source {
    uri: String,
    suites: Vec<String>,
}

impl Suite {
    /// Fetches the suite's list of packages.
    pub(super) fn open(name: &'static str, arch: Arch, below: &Path) -> Result<Self> {
        let suite = Self { name, arch, directory: below.join("apt").join(name) };
        for directory in ["lists/partial", "cache/archives/partial", "state"] {
            fs::create_dir_all(suite.directory.join(directory))?;
        }
        let sources = sources(&machine_sources());
        let uri = mirror(&sources, name).context(
            "apt's sources on this machine name no Debian mirror: test kernels are packages of Debian",
        )?;
        let options = format!("arch={} lang=none target=Packages signed-by={KEYRING}", arch.name());
        let list = format!("deb [{options}] {uri} {name} main\n");
        fs::write(suite.directory.join("sources.list"), list)?;
        say::step(format_args!("Fetching the list of packages of {name} for {}.", arch.name()));
        cmd::run(suite.apt("apt-get").args(["--quiet=2", "update"]))?;
        Ok(suite)
    }

    /// Names of the kernel packages that the suite has.
    pub(super) fn kernels(&self) -> Result<Vec<String>> {
        let pattern = kernels::pattern(self.arch);
        let found = cmd::capture(self.apt("apt-cache").args(["search", "--names-only", &pattern]));
        let found = found.with_context(|| format!("apt-cache cannot read the packages of {}", self.name))?;
        Ok(found.lines().filter_map(|line| line.split_once(" - ")).map(|(name, _)| name.to_owned()).collect())
    }

    /// Downloads packages into `directory`.
    pub(super) fn download(&self, packages: &[String], directory: &Path) -> Result<()> {
        say::step(format_args!("Downloading {} from {}.", packages.join(" "), self.name));
        let mut command = self.apt("apt-get");
        cmd::run(command.args(["--quiet=2", "download"]).args(packages).current_dir(directory))
    }

    /// Downloads packages with all of their dependencies; returns the directory that holds them.
    pub(super) fn download_whole(&self, packages: &[&str]) -> Result<PathBuf> {
        say::step(format_args!(
            "Downloading {} for {} from {}, with what they depend on.",
            packages.join(" "),
            self.arch.name(),
            self.name
        ));
        let mut command = self.apt("apt-get");
        command.args(["--quiet=2", "--yes", "--no-install-recommends", "--download-only", "install"]);
        cmd::run(command.args(packages))?;
        Ok(self.directory.join("cache/archives"))
    }

    fn apt(&self, program: &str) -> Command {
        let mut command = cmd::tool(program);
        for (option, place) in [
            ("Dir::Etc::SourceList", "sources.list"),
            ("Dir::State", "state"),
            ("Dir::State::Lists", "lists"),
            ("Dir::Cache", "cache"),
        ] {
            let mut setting = OsString::from(format!("{option}="));
            setting.push(self.directory.join(place));
            command.arg("-o").arg(setting);
        }
        // No other sources, none of this machine's packages, no sandbox user (it may not write to our
        // directory), and no lock (it would be created beside the status file).
        let none = ["Dir::Etc::SourceParts=-", "Dir::State::Status=/dev/null", "APT::Sandbox::User=root"];
        for setting in none.into_iter().chain(["Debug::NoLocking=1"]) {
            command.args(["-o", setting]);
        }
        for option in ["APT::Architecture", "APT::Architectures"] {
            command.arg("-o").arg(format!("{option}={}", self.arch.name()));
        }
        command
    }
}

/// All source lists of this machine, as one text.
fn machine_sources() -> String {
    let parts = fs::read_dir("/etc/apt/sources.list.d").into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = parts.map(|entry| entry.path()).collect();
    files.push("/etc/apt/sources.list".into());
    files.sort();
    let texts = files.iter().filter_map(|file| fs::read_to_string(file).ok());
    texts.map(|text| text + "\n\n").collect()
}

/// Parses both formats of source lists.
fn sources(text: &str) -> Vec<Source> {
    let mut found = Vec::new();
    let mut uri = None;
    for line in text.lines().map(str::trim) {
        if let Some(value) = line.strip_prefix("URIs:") {
            uri = value.split_whitespace().next().map(str::to_owned);
        } else if let (Some(value), Some(uri)) = (line.strip_prefix("Suites:"), &uri) {
            let suites = value.split_whitespace().map(str::to_owned).collect();
            found.push(Source { uri: uri.clone(), suites });
        } else if line.is_empty() {
            uri = None;
        } else if line.starts_with("deb ") {
            found.extend(one_line(line));
        }
    }
    found
}

/// `deb [options] URI SUITE COMPONENT...`
fn one_line(line: &str) -> Option<Source> {
    let rest = line.strip_prefix("deb ")?.trim_start();
    let rest = if rest.starts_with('[') { rest.split_once(']')?.1 } else { rest };
    let mut words = rest.split_whitespace();
    Some(Source { uri: words.next()?.to_owned(), suites: vec![words.next()?.to_owned()] })
}

/// The mirror for a suite. Security updates have their own mirror.
fn mirror<'a>(sources: &'a [Source], suite: &str) -> Option<&'a str> {
    let is_security = |name: &str| name.ends_with("-security");
    let debian = sources.iter().filter(|source| source.uri.trim_end_matches('/').contains("debian"));
    let mut fits =
        debian.filter(|source| source.suites.iter().any(|name| is_security(name)) == is_security(suite));
    fits.next().map(|source| &*source.uri)
}

/// Whether the distribution's keys are there.
pub(super) fn check_keyring() -> Result<()> {
    if !Path::new(KEYRING).exists() {
        bail!("{KEYRING} is missing, with which the packages of test kernels are checked");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEB822: &str = "\
Types: deb
# A comment.
URIs: http://mirror.test/debian
Suites: stable stable-updates
Components: main

Types: deb
URIs: http://mirror.test/debian-security
Suites: stable-security
";

    #[test]
    fn each_suite_has_its_mirror() {
        let found = sources(DEB822);
        assert_eq!(mirror(&found, "testing"), Some("http://mirror.test/debian"));
        assert_eq!(mirror(&found, "old-security"), Some("http://mirror.test/debian-security"));
    }

    #[test]
    fn sources_of_one_line_are_read_too() {
        let found =
            sources("deb [arch=amd64 signed-by=/a/key] http://mirror.test/debian stable main\n# deb x y z\n");
        let expected =
            Source { uri: "http://mirror.test/debian".to_owned(), suites: vec!["stable".to_owned()] };
        assert_eq!(found, [expected]);
        assert_eq!(mirror(&found, "old-security"), None);
    }

    #[test]
    fn other_peoples_packages_are_no_mirror() {
        assert_eq!(mirror(&sources("deb https://vendor.test/apt stable main"), "testing"), None);
    }
}
