//! `cargo xtask bench`: measures what the programs cost on this machine, beside the alternatives, and prints
//! markdown to stdout.
//!
//! The figures are for readers and documents. No figure fails the command, because a busy machine would.
//! `overhead` measures whole requests instead of single programs.

mod overhead;

use anyhow::{Result, bail};

use crate::{apt, build, cmd, say};

#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    whole: Option<Whole>,
    /// Sections of the report (default: all): hook, scan, slowdown, memory, scrape
    sections: Vec<String>,
    /// How many times each variant runs
    #[arg(long, default_value_t = 12)]
    rounds: u32,
}

#[derive(clap::Subcommand)]
enum Whole {
    /// Measure what requests cost with the agent, with parts of it, and with other tools
    Overhead(overhead::Args),
    /// Internal: how `overhead` starts its own loads
    #[command(hide = true)]
    Worker { work: overhead::Work },
}

pub(crate) fn main(args: &Args) -> Result<()> {
    match &args.whole {
        Some(Whole::Overhead(args)) => overhead::main(args),
        Some(Whole::Worker { work }) => overhead::work(*work),
        None => report(args),
    }
}

fn report(args: &Args) -> Result<()> {
    if !apt::root() {
        bail!("the programs are measured in the running kernel: run this as root");
    }
    build::objects()?;
    say::step("Measuring; this takes a few minutes. A quiet machine gives narrower spreads.");
    let mut cargo = cmd::cargo();
    cargo.args(["bench", "--quiet", "--locked", "--profile", "dist"]);
    cargo.args(["--package", "sysprobe-agent", "--bench", "cost", "--"]);
    cargo.arg(args.rounds.to_string()).args(&args.sections);
    cmd::run_watched(cargo)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn sections_and_whole_requests_are_told_apart() {
        let parse = |words: &[&str]| Line::try_parse_from([&["bench"], words].concat()).unwrap().args;
        let args = parse(&["hook", "scan", "--rounds", "3"]);
        assert_eq!((args.sections, args.rounds), (vec!["hook".to_owned(), "scan".to_owned()], 3));
        assert!(args.whole.is_none());
        assert!(parse(&[]).whole.is_none());
        assert!(matches!(parse(&["overhead", "--pairs", "1"]).whole, Some(Whole::Overhead(_))));
        assert!(matches!(parse(&["worker", "ping-pong"]).whole, Some(Whole::Worker { .. })));
    }
}
