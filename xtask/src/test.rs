//! `cargo xtask test`: runs every test and reports exactly what ran.
//!
//! Integration tests load programs into the running kernel and therefore need root. Without root the command
//! fails, unless it was asked to leave them out. Part of them is then repeated in virtual machines (`vm`) on
//! other kernels: the oldest, one in the middle and the newest.

mod outcome;
mod pool;

use std::fs;
use std::path::PathBuf;

use anyhow::{Result, bail};

use crate::build::test_programs::{self, WORKSPACE, cargo_test};
use crate::results::{Failure, Results};
use crate::{apt, build, cmd, leftovers, paths, say, vm};

/// Packages with the programs that integration tests start.
const PACKAGES: [&str; 16] = [
    "btrfs-progs",
    "curl",
    "dmsetup",
    "ethtool",
    "fio",
    "iperf3",
    "iproute2",
    "iptables",
    "nginx-light",
    "procps",
    "prometheus",
    "strace",
    "stress-ng",
    "tmux",
    "wrk",
    "xfsprogs",
];

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Run only this file of integration tests, such as tcp, or tests whose name contains this
    filter: Option<String>,
    /// Leave out the tests that need a kernel and root
    #[arg(long)]
    no_kernel: bool,
    /// Leave out the kernels that this machine does not run
    #[arg(long)]
    no_vm: bool,
    /// How many test files run at a time; with more than one, tests run on a busy machine
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    at_once: usize,
}

pub(crate) fn main(args: &Args) -> Result<()> {
    let kernel = args.with_kernel();
    let results = on_host(args)?;
    results.failures.iter().flat_map(Failure::lines).for_each(|line| say::output(&line));
    account(&results, kernel);
    if !results.failures.is_empty() {
        bail!("{} tests failed", results.failures.len());
    }
    other_kernels(args, kernel)?;
    if let Some(filter) = args.filter.as_ref().filter(|_| results == Results::default()) {
        bail!("no test has `{filter}` in its name");
    }
    if !kernel && !args.no_kernel {
        bail!(
            "the tests that need a kernel did not run: run this as root, or accept that with `--no-kernel`"
        );
    }
    Ok(())
}

/// Runs the tests on this machine. An error means that building or starting them failed; failed tests are in
/// the results.
pub(crate) fn on_host(args: &Args) -> Result<Results> {
    let kernel = args.with_kernel();
    if kernel {
        apt::ensure(&PACKAGES, "Integration tests use a real Prometheus, a terminal, fio and file systems")?;
    }
    let agent = args.agent(kernel)?;
    if kernel {
        leftovers::remove();
    }
    let files = args.files(kernel);
    let mut cargo = cargo_test();
    if !kernel {
        cargo.args(["--lib", "--bins"]);
    }
    cargo.args(files.iter().flat_map(|file| ["--test", file]));
    let programs = test_programs::build(cargo)?;
    let marks = leftovers::Marks::of_this_run();
    let names = args.filter.as_ref().filter(|_| files.is_empty());
    let mut results = pool::run(programs, args.at_once, |command| {
        marks.put_on(command);
        command.args(names).envs(agent.as_ref().map(|agent| (test_programs::AGENT, agent)));
    })?;
    if kernel && args.filter.is_none() {
        results.add(documentation()?);
    }
    Ok(results)
}

/// Runs the examples in documentation comments, which only cargo can run.
fn documentation() -> Result<Results> {
    let name = "examples in documentation";
    say::step(format_args!("Running {name}."));
    let mut cargo = cargo_test();
    cargo.arg("--doc").env("CARGO_TERM_COLOR", "never");
    let (lines, succeeded) = cmd::collect(cargo)?;
    say::block(lines.iter());
    Ok(outcome::results(name, &format!("{} --doc", WORKSPACE.join(" ")), &lines, succeeded))
}

/// Runs the short form of `cargo xtask vm`.
fn other_kernels(args: &Args, kernel: bool) -> Result<()> {
    if let Some(reason) = args.without_vm(kernel) {
        say::step(format_args!("Skipped: tests on other kernels, {reason}."));
        return Ok(());
    }
    say::step("Repeating a part on other kernels; `cargo xtask vm --all` runs everything on all of them.");
    vm::main(&vm::Args::short())
}

/// The test files of a domain: `vfs` has `vfs.rs`, `vfs_limit.rs`, ... Only these are built.
fn files_of_tests(domain: &str) -> Vec<String> {
    let Ok(entries) = fs::read_dir(paths::root().join("sysprobe-agent/tests")) else { return Vec::new() };
    let files = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let stems = files.filter_map(|file| Some(file.strip_suffix(".rs")?.to_owned()));
    let is_of_domain = |stem: &String| {
        stem.strip_prefix(domain).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
    };
    let mut found: Vec<String> = stems.filter(is_of_domain).collect();
    found.sort();
    found
}

fn account(results: &Results, kernel: bool) {
    let Results { passed, ignored, failures, .. } = results;
    let kinds = if kernel { "unit, integration and kernel tests" } else { "unit tests" };
    say::step(format_args!("Ran {kinds}: {passed} passed, {} failed, {ignored} ignored.", failures.len()));
    if !kernel {
        say::step("Skipped: integration and kernel tests.");
    }
}

// === impl Args ===

impl Args {
    pub(crate) fn everything() -> Self {
        Self { filter: None, no_kernel: false, no_vm: false, at_once: 1 }
    }

    /// The tests that need neither root nor a kernel.
    pub(crate) fn units() -> Self {
        Self { no_kernel: true, ..Self::everything() }
    }

    /// Builds the objects and, for a run of everything, the optimised agent: such a run starts hundreds of
    /// agents, and this one starts in half the time. For a part, its build would take longer than it saves.
    fn agent(&self, kernel: bool) -> Result<Option<PathBuf>> {
        if kernel && self.filter.is_none() {
            return build::release().map(Some);
        }
        build::objects().map(|()| None)
    }

    /// The test files that the filter names.
    fn files(&self, kernel: bool) -> Vec<String> {
        let named = self.filter.iter().filter(|_| kernel);
        named.flat_map(|filter| files_of_tests(filter)).collect()
    }

    fn with_kernel(&self) -> bool {
        !self.no_kernel && apt::root()
    }

    /// Why no other kernels are booted.
    fn without_vm(&self, kernel: bool) -> Option<&'static str> {
        if self.no_vm {
            Some("as asked for")
        } else if !kernel {
            Some("since no kernel tests run")
        } else if self.filter.is_some() {
            Some("since only a part was asked for")
        } else {
            (std::env::consts::ARCH != "x86_64").then_some("which are for x86_64")
        }
    }
}
