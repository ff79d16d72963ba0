//! `cargo xtask`: everything this repository needs to be built, tested and checked.
//!
//! One subcommand per file. `build`, `run` and `test` set up the eBPF toolchain by themselves, so a fresh
//! machine needs no other step. All messages go to stderr: stdout belongs to the program that `run` starts.

mod apt;
mod bench;
mod build;
mod chart;
mod check;
mod ci;
mod cmd;
mod cost;
mod docs;
mod e2e;
mod golang;
mod hooks;
mod image;
mod leftovers;
mod lint;
mod new_domain;
mod oci;
mod paths;
mod results;
mod run;
mod say;
mod test;
mod tidy;
mod toolchain;
mod vm;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Builds, tests and checks sysprobe.
#[derive(Parser)]
#[command(name = "cargo xtask", version)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Find the eBPF toolchain, or install it
    Setup(SetupArgs),
    /// Check format, rules, lints and unit tests: what a commit must pass, in a minute
    Check,
    /// Build the eBPF objects and the agent
    Build(build::Args),
    /// Build the agent and show `sysprobe top` on this host
    Run(run::Args),
    /// Run every test, including those that need a kernel and root
    Test(test::Args),
    /// Run the kernel tests in virtual machines with kernels from 5.10 on
    Vm(vm::Args),
    /// Run the agent beside real parts of Kubernetes and check every label
    E2e(e2e::Args),
    /// Make the agent's container image, without a daemon
    Image(image::Args),
    /// Check the Helm chart with many sets of values, and generate the kustomize manifests from it
    Chart(chart::Args),
    /// Measure what the programs cost on this machine
    Bench(bench::Args),
    /// Count what each program costs on each kernel, or check that none has become dearer
    Cost(cost::Args),
    /// Check format, lints, licences, advisories and the repository's own rules
    Lint,
    /// Write the pages under docs/ that come from the agent's tables
    Docs(docs::Args),
    /// Check the repository's own rules only
    Tidy,
    /// Add a small domain to a copy of the repository, as CONTRIBUTING says, and test it there
    NewDomain,
    /// Run every check that must pass before a merge, and show how long each took
    Ci(ci::Args),
}

#[derive(clap::Args)]
struct SetupArgs {
    /// Also have git run `cargo xtask check` before each commit
    #[arg(long)]
    hooks: bool,
}

fn setup(args: &SetupArgs) -> anyhow::Result<()> {
    toolchain::setup()?;
    if args.hooks { hooks::install() } else { Ok(()) }
}

fn main() -> ExitCode {
    let done = match Cli::parse().task {
        Task::Setup(args) => setup(&args),
        Task::Check => check::main(),
        Task::Build(args) => build::main(&args),
        Task::Run(args) => run::main(&args),
        Task::Test(args) => test::main(&args),
        Task::Vm(args) => vm::main(&args),
        Task::E2e(args) => e2e::main(&args),
        Task::Image(args) => image::main(&args),
        Task::Chart(args) => chart::main(&args).map(drop),
        Task::Bench(args) => bench::main(&args),
        Task::Cost(args) => cost::main(&args),
        Task::Lint => lint::main().map(drop),
        Task::Docs(args) => docs::main(&args),
        Task::Tidy => tidy::main(),
        Task::NewDomain => new_domain::main(),
        Task::Ci(args) => return ci::main(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say::error(&error);
            ExitCode::FAILURE
        }
    }
}
