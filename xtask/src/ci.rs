//! `cargo xtask ci`: every check that has to pass before a change is merged, in phases. The last lines are
//! always the table of phases and the failed tests.
//!
//! `--full` adds the checks that take too long for every change: more kernels and machines, program costs,
//! the guide to new domains, the image. A workflow runs it each night.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::results::{Failure, Report, Results};
use crate::{apt, chart, cost, docs, image, lint, new_domain, say, test, vm};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Also run part of every test file on three kernels and some on special machines, compare what the
    /// programs cost, follow the guide to new domains, and make the image
    #[arg(long)]
    full: bool,
}

/// A step that is timed separately.
struct Phase {
    name: &'static str,
    /// The command that runs it alone.
    alone: &'static str,
    run: fn() -> Result<Results>,
    /// Whether a failure ends the run.
    decides: bool,
}

/// How a phase ended.
struct Ended {
    name: &'static str,
    took: Duration,
    passed: bool,
}

/// The checks for every change. A change that fails the lints will be edited again, so nothing else runs
/// after such a failure.
const EVERY_CHANGE: [Phase; 5] = [
    Phase { name: "lint", alone: "cargo xtask lint", run: lint::main, decides: true },
    Phase { name: "host tests", alone: "cargo xtask test --no-vm", run: host_tests, decides: false },
    Phase {
        name: "documents",
        alone: "cargo xtask docs --check",
        run: || docs::main(&docs::Args::checking()).map(nothing),
        decides: false,
    },
    Phase {
        name: "chart",
        alone: "cargo xtask chart --check",
        run: || chart::main(&chart::Args::checking()),
        decides: false,
    },
    Phase {
        name: "guests",
        alone: "cargo xtask vm 5.10 7.3 --smoke",
        run: || guests(&vm::Args::smoke()),
        decides: false,
    },
];

const FULL: [Phase; 5] = [
    Phase {
        name: "more guests",
        alone: "cargo xtask vm --short",
        run: || guests(&vm::Args::short()),
        decides: false,
    },
    Phase {
        name: "special guests",
        alone: "cargo xtask ci --full",
        run: || Ok(special_guests()),
        decides: false,
    },
    Phase {
        name: "cost",
        alone: "cargo xtask cost --check",
        run: || cost::main(&cost::Args::checking()).map(nothing),
        decides: false,
    },
    Phase {
        name: "new domain",
        alone: "cargo xtask new-domain",
        run: || new_domain::main().map(nothing),
        decides: false,
    },
    Phase {
        name: "image",
        alone: "cargo xtask image",
        run: || image::main(&image::Args::usual()).map(nothing),
        decides: false,
    },
];

/// Prints the counts as the last line even if the run fails.
pub(crate) fn main(args: &Args) -> ExitCode {
    let full = if args.full { &FULL[..] } else { &[] };
    let (ended, results) = run(EVERY_CHANGE.iter().chain(full));
    for line in conclusion(&ended, &results) {
        say::output(&line);
    }
    if results.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run<'a>(phases: impl Iterator<Item = &'a Phase>) -> (Vec<Ended>, Results) {
    let (mut ended, mut results) = (Vec::new(), Results::default());
    for phase in phases {
        say::step(format_args!("Phase: {}.", phase.name));
        let start = Instant::now();
        let found = (phase.run)().unwrap_or_else(|error| broken(phase.name, phase.alone, &error));
        let passed = found.failures.is_empty();
        results.add(found);
        ended.push(Ended { name: phase.name, took: start.elapsed(), passed });
        if phase.decides && !passed {
            break;
        }
    }
    (ended, results)
}

fn nothing((): ()) -> Results {
    Results::default()
}

/// Without root, half of the tests would be skipped and the result would not cover them.
fn host_tests() -> Result<Results> {
    ensure!(apt::root(), "most tests need root");
    test::on_host(&test::Args::everything())
}

/// A kernel whose run did not finish counts as a failure.
fn guests(args: &vm::Args) -> Result<Results> {
    Ok(vm::in_guests(args)?.results)
}

/// One that cannot be started does not keep the others from it.
fn special_guests() -> Results {
    let mut all = Results::default();
    for line in vm::SPECIAL {
        let ran = vm::Args::parse(line).and_then(|args| guests(&args));
        all.add(
            ran.unwrap_or_else(|error| broken("special guests", &format!("cargo xtask vm {line}"), &error)),
        );
    }
    all
}

/// A phase that failed as a whole.
fn broken(phase: &str, alone: &str, error: &anyhow::Error) -> Results {
    let report = Report::of(format!("{error:#}").lines().map(str::to_owned));
    let failure = Failure { test: format!("phase {phase}"), report, alone: alone.to_owned() };
    Results { failures: vec![failure], ..Results::default() }
}

/// The last lines of the log: where the time went, what failed, and the counts.
fn conclusion(ended: &[Ended], results: &Results) -> Vec<String> {
    let mut lines = vec![format!("{:<14}{:>7}", "phase", "s")];
    for Ended { name, took, passed } in ended {
        let mut line = format!("{name:<14}{:>7.0}", took.as_secs_f64());
        if !passed {
            line.write_str("  FAILED").expect("a string takes everything");
        }
        lines.push(line);
    }
    let total: Duration = ended.iter().map(|ended| ended.took).sum();
    lines.push(format!("{:<14}{:>7.0}", "total", total.as_secs_f64()));
    lines.extend(results.left_out.iter().map(|what| format!("left out: {what}")));
    lines.extend(results.failures.iter().flat_map(Failure::lines));
    lines.push(format!("{} passed, {} failed", results.passed, results.failures.len()));
    lines
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    fn phase(name: &'static str, run: fn() -> Result<Results>, decides: bool) -> Phase {
        Phase { name, alone: "cargo xtask chart --check", run, decides }
    }

    fn three() -> Results {
        Results { passed: 3, ..Results::default() }
    }

    fn fails() -> Result<Results> {
        bail!("no such thing")
    }

    #[test]
    fn a_failure_is_told_in_the_last_lines() {
        let (bad, fine) = (phase("chart", fails, false), phase("host tests", || Ok(three()), false));
        let (ended, results) = run([&bad, &fine].into_iter());
        let lines = conclusion(&ended, &results);
        assert!(lines[1].ends_with("FAILED") && !lines[2].ends_with("FAILED"), "{lines:?}");
        let account = [
            "---- FAILED: phase chart",
            "    no such thing",
            "  alone: cargo xtask chart --check",
            "3 passed, 1 failed",
        ];
        assert_eq!(lines[lines.len() - 4..], account);
    }

    #[test]
    fn nothing_follows_a_phase_that_decides() {
        let (bad, fine) = (phase("lint", fails, true), phase("chart", || Ok(three()), false));
        let (ended, _) = run([&bad, &fine].into_iter());
        assert_eq!(ended.len(), 1);
    }
}
