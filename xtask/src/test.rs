//! `cargo xtask test`: every test there is, and an honest account of it.
//!
//! Integration tests load programs into the running kernel and therefore need root. Without root they cannot
//! run, and a run without them is a failure unless it was asked for. A part of them is then repeated on other
//! kernels (`vm`), the oldest, one in the middle and the newest.

mod listener;

use std::fs;

use anyhow::{Result, bail};

use crate::results::{Failure, Results};
use crate::{apt, build, cmd, leftovers, paths, say, vm};
use listener::Listener;

/// Programs that integration tests start, by the packages that bring them.
const PACKAGES: [&str; 15] = [
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

/// Runs the tests on this machine. An error is one of building or of starting them; what failed is in the
/// results.
pub(crate) fn on_host(args: &Args) -> Result<Results> {
    let kernel = args.with_kernel();
    if kernel {
        apt::ensure(&PACKAGES, "Integration tests use a real Prometheus, a terminal, fio and file systems")?;
    }
    build::objects()?;
    if kernel {
        leftovers::remove();
    }
    // What is started while the tests are built belongs to others, too.
    cmd::run(cargo_test(args, kernel).arg("--no-run"))?;
    let mut cargo = cargo_test(args, kernel);
    cargo.env("CARGO_TERM_COLOR", "never");
    let _marks = leftovers::Marks::put_on(&mut cargo);
    let mut listener = Listener::default();
    let ended = cmd::run_watched(cargo, |line| listener.hear(line));
    let results = listener.into_results();
    // With a failed test cargo fails, too.
    if results.failures.is_empty() {
        ended?;
    }
    Ok(results)
}

/// The short form of `cargo xtask vm`.
fn other_kernels(args: &Args, kernel: bool) -> Result<()> {
    if let Some(reason) = args.without_vm(kernel) {
        say::step(format_args!("Skipped: tests on other kernels, {reason}."));
        return Ok(());
    }
    say::step("Repeating a part on other kernels; `cargo xtask vm --all` runs everything on all of them.");
    vm::main(&vm::Args::short())
}

fn cargo_test(args: &Args, kernel: bool) -> std::process::Command {
    let mut cargo = cmd::cargo();
    cargo.args(["test", "--locked", "--workspace", "--exclude", "sysprobe-ebpf", "--no-fail-fast"]);
    if !kernel {
        cargo.args(["--lib", "--bins"]);
    }
    let files = args.filter.iter().flat_map(|filter| files_of_tests(filter)).filter(|_| kernel);
    let files: Vec<String> = files.collect();
    if files.is_empty() {
        cargo.args(&args.filter);
    }
    for file in &files {
        cargo.args(["--test", file]);
    }
    cargo
}

/// The files of tests of a domain: `vfs` has `vfs.rs`, `vfs_limit.rs`, ... Only these are built then.
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
    let Results { passed, ignored, failures } = results;
    let kinds = if kernel { "unit, integration and kernel tests" } else { "unit tests" };
    say::step(format_args!("Ran {kinds}: {passed} passed, {} failed, {ignored} ignored.", failures.len()));
    if !kernel {
        say::step("Skipped: integration and kernel tests.");
    }
}

// === impl Args ===

impl Args {
    pub(crate) fn everything() -> Self {
        Self { filter: None, no_kernel: false, no_vm: false }
    }

    /// Those that need neither root nor a kernel.
    pub(crate) fn units() -> Self {
        Self { no_kernel: true, ..Self::everything() }
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
