//! `cargo xtask test`: every test there is, and an honest account of it.
//!
//! Integration tests load programs into the running kernel and therefore need root. Without root they cannot
//! run, and a run without them is a failure unless it was asked for. A part of them is then repeated on other
//! kernels (`vm`), the oldest, one in the middle and the newest.

use anyhow::{Result, bail};

use crate::{apt, build, cmd, say, vm};

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
    /// Run only tests whose name contains this
    filter: Option<String>,
    /// Leave out the tests that need a kernel and root
    #[arg(long)]
    no_kernel: bool,
    /// Leave out the kernels that this machine does not run
    #[arg(long)]
    no_vm: bool,
}

/// Sums of cargo's "test result:" lines.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    passed: u64,
    failed: u64,
    ignored: u64,
}

pub(crate) fn main(args: &Args) -> Result<()> {
    let root = apt::root();
    let kernel = root && !args.no_kernel;
    if kernel {
        apt::ensure(&PACKAGES, "Integration tests use a real Prometheus, a terminal, fio and file systems")?;
        build::release()?;
    } else {
        build::objects()?;
    }
    let mut tally = Tally::default();
    let result = cmd::run_watched(&mut cargo_test(args, kernel), |line| tally.add(line));
    account(&tally, kernel);
    result?;
    other_kernels(args, kernel)?;
    if let Some(filter) = args.filter.as_ref().filter(|_| tally == Tally::default()) {
        bail!("no test has `{filter}` in its name");
    }
    if !root && !args.no_kernel {
        bail!(
            "the tests that need a kernel did not run: run this as root, or accept that with `--no-kernel`"
        );
    }
    Ok(())
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
    cargo.args(&args.filter);
    cargo
}

fn account(tally: &Tally, kernel: bool) {
    let Tally { passed, failed, ignored } = tally;
    let kinds = if kernel { "unit, integration and kernel tests" } else { "unit tests" };
    say::step(format_args!("Ran {kinds}: {passed} passed, {failed} failed, {ignored} ignored."));
    if !kernel {
        say::step("Skipped: integration and kernel tests.");
    }
}

// === impl Args ===

impl Args {
    pub(crate) fn everything() -> Self {
        Self { filter: None, no_kernel: false, no_vm: false }
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

// === impl Tally ===

impl Tally {
    /// Adds `test result: ok. 3 passed; 0 failed; 1 ignored; ...`; other lines count nothing.
    fn add(&mut self, line: &str) {
        let Some((_, counts)) = line.strip_prefix("test result: ").and_then(|rest| rest.split_once(". "))
        else {
            return;
        };
        for count in counts.split("; ") {
            match count.split_once(' ').map(|(number, what)| (number.parse().unwrap_or(0), what)) {
                Some((number, "passed")) => self.passed += number,
                Some((number, "failed")) => self.failed += number,
                Some((number, "ignored")) => self.ignored += number,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_add_up() {
        let mut tally = Tally::default();
        tally.add(
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.00s",
        );
        tally.add(
            "test result: FAILED. 4 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished \
                   in 0.1s",
        );
        tally.add("test sched::ok ... ok");
        assert_eq!(tally, Tally { passed: 7, failed: 2, ignored: 1 });
    }
}
