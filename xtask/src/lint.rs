//! `cargo xtask lint`: format, lints, licences and advisories, and the repository's own rules.

use std::time::Duration;

use anyhow::{Result, bail};

use crate::results::Results;
use crate::{build, cmd, paths, say, tidy};

/// The version of `cargo-deny` to build where none is installed.
const DENY_VERSION: &str = "0.20.2";

/// An unreachable server must not hold up the other checks.
const NETWORK_LIMIT: Duration = Duration::from_secs(120);

pub(crate) fn main() -> Result<Results> {
    quick()?;
    deny()
}

/// The checks that need nothing but this repository.
pub(crate) fn quick() -> Result<()> {
    tidy::main()?;
    component("fmt", "rustfmt")?;
    component("clippy", "clippy")?;
    say::step("Checking the format.");
    cmd::run(cmd::cargo().args(["fmt", "--all", "--check"]))?;
    // The agent embeds the objects and does not compile without them.
    build::objects()?;
    clippy(&["--workspace", "--exclude", "sysprobe-ebpf", "--all-targets"])?;
    // The kernel side is linted for the host, which needs neither its linker nor a `core` of our own. It has
    // no standard library, so it compiles only with a profile that aborts on panics.
    clippy(&["--package", "sysprobe-ebpf", "--release"])
}

/// Installs a linting component of the toolchain if it is missing.
fn component(command: &str, name: &str) -> Result<()> {
    if cmd::capture(cmd::cargo().args([command, "--version"])).is_some() {
        return Ok(());
    }
    say::step(format_args!("`cargo {command}` is missing: asking rustup for {name}."));
    if cmd::run_within(cmd::tool("rustup").args(["component", "add", name]), NETWORK_LIMIT).is_err() {
        bail!("`cargo {command}` is missing: install {name} for your Rust toolchain, then run this again");
    }
    Ok(())
}

fn clippy(what: &[&str]) -> Result<()> {
    say::step(format_args!("Linting {}.", what.join(" ")));
    cmd::run(cmd::cargo().args(["clippy", "--locked"]).args(what).args(["--", "-D", "warnings"]))
}

fn deny() -> Result<Results> {
    if paths::find_programs("cargo-deny").is_empty() {
        say::step(format_args!("Building cargo-deny {DENY_VERSION}, which checks licences and advisories."));
        let mut install = cmd::tool("cargo");
        cmd::run(install.args(["install", "cargo-deny", "--locked", "--version", DENY_VERSION]))?;
    }
    say::step("Checking licences, duplicates and sources of all dependencies.");
    cmd::run(cmd::cargo().args(["deny", "--all-features", "check", "licenses", "bans", "sources"]))?;
    advisories()
}

/// Checks against the database of known vulnerabilities, which is on a server. If the server is out of reach,
/// the check is skipped and says so; a finding is a failure.
fn advisories() -> Result<Results> {
    say::step("Fetching the advisory database.");
    if let Err(error) = cmd::run_within(cmd::cargo().args(["deny", "fetch", "db"]), NETWORK_LIMIT) {
        say::step(format_args!("NOT CHECKED: advisories, for their database is out of reach ({error})."));
        return Ok(Results::without("advisories: their database is out of reach".to_owned()));
    }
    cmd::run(cmd::cargo().args(["deny", "--all-features", "check", "--disable-fetch", "advisories"]))?;
    Ok(Results::default())
}
