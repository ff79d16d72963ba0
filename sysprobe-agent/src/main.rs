//! The `sysprobe` binary: arguments in, exit code out.

use std::process::ExitCode;

use clap::Parser;
use sysprobe_agent::cli::Cli;

fn main() -> ExitCode {
    Cli::complete();
    Cli::parse().run()
}
