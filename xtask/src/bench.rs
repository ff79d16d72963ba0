//! `cargo xtask bench`: what the programs cost on this machine, beside the alternatives, as markdown on stdout.
//!
//! Figures are for people and documents. No figure makes this fail: a busy machine would.

use anyhow::{Result, bail};

use crate::{apt, build, cmd, say};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Sections of the report (all without any): hook, census, slowdown, memory, scrape
    sections: Vec<String>,
    /// How often each variant has its turn
    #[arg(long, default_value_t = 12)]
    rounds: u32,
}

pub(crate) fn main(args: &Args) -> Result<()> {
    if !apt::root() {
        bail!("the programs are measured in the running kernel: run this as root");
    }
    build::objects()?;
    say::step("Measuring; this takes a few minutes. A quiet machine gives narrower spreads.");
    let mut cargo = cmd::cargo();
    cargo.args(["bench", "--quiet", "--locked", "--package", "sysprobe-agent", "--bench", "cost", "--"]);
    cargo.arg(args.rounds.to_string()).args(&args.sections);
    cmd::run_watched(&mut cargo, |_| {})
}
