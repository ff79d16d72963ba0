//! `cargo xtask run`: builds the agent and becomes `sysprobe top`.
//!
//! The agent is not optimised, so that it builds faster. The BPF programs always are.
//!
//! The program replaces this process, so it owns the terminal and the signals. It also runs without a
//! terminal.

use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::{build, cmd, say};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Arguments for `sysprobe top`, such as --once
    #[arg(last = true)]
    args: Vec<OsString>,
}

pub(crate) fn main(args: &Args) -> Result<()> {
    say::step(
        "Building everything. The first time, this takes about three minutes on two CPUs, and \
               longer if the eBPF toolchain has to be installed.",
    );
    let program = build::plain()?;
    let mut top: Command = cmd::tool(&program);
    top.arg("top").args(&args.args).stdin(Stdio::inherit()).current_dir(env::current_dir()?);
    say::step("Starting `sysprobe top`.");
    Err(top.exec()).with_context(|| format!("starting {}", program.display()))
}
