//! Packages of a Debian-like distribution, by name.
//!
//! The package lists are fetched at most once per run, and only before something is installed.

use std::path::Path;
use std::sync::OnceLock;

use anyhow::{Result, bail};

use crate::{cmd, say};

/// Whether this distribution has `apt-get`.
pub(crate) fn available() -> bool {
    Path::new("/usr/bin/apt-get").exists()
}

/// Whether we may install packages.
pub(crate) fn root() -> bool {
    cmd::capture(cmd::tool("id").arg("-u")).is_some_and(|id| id.trim() == "0")
}

/// Whether a package is fully installed.
pub(crate) fn installed(package: &str) -> bool {
    let status = cmd::capture(cmd::tool("dpkg-query").args(["--show", "--showformat=${Status}", package]));
    status.is_some_and(|status| status.ends_with(" ok installed"))
}

/// Installs the missing packages of the list, or tells the user what to install.
pub(crate) fn ensure(packages: &[&str], why: &str) -> Result<()> {
    let missing: Vec<&str> = packages.iter().copied().filter(|package| !installed(package)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names = missing.join(" ");
    if !available() {
        bail!("{why}: install what your distribution calls `{names}`, then run this again");
    }
    if !root() {
        bail!("{why}: run `apt-get install {names}` as root, then run this again");
    }
    install(&missing, why)
}

/// Installs packages, unconditionally.
pub(crate) fn install(packages: &[&str], why: &str) -> Result<()> {
    update()?;
    say::step(format_args!("{why}: installing the packages {}.", packages.join(" ")));
    cmd::run(apt_get().args(["install", "--yes", "--no-install-recommends"]).args(packages))
}

/// Fetches the package lists, once per run.
pub(crate) fn update() -> Result<()> {
    static DONE: OnceLock<()> = OnceLock::new();
    if DONE.get().is_none() {
        say::step("Fetching the distribution's package lists, so that what is installed is current.");
        cmd::run(apt_get().arg("update"))?;
        DONE.get_or_init(|| ());
    }
    Ok(())
}

fn apt_get() -> std::process::Command {
    let mut command = cmd::tool("apt-get");
    // A package that asks a question would wait forever: there may be no terminal.
    command.env("DEBIAN_FRONTEND", "noninteractive").arg("--quiet");
    command
}
