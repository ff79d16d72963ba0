//! The only module of `xtask` that prints.
//!
//! Steps and errors go to stderr, so that `cargo xtask run -- -o json` leaves clean JSON on stdout. `output`
//! passes on what a child wrote to its own stdout.

use std::io::Write as _;

/// Announces a step: what is done, and why.
#[expect(clippy::print_stderr, reason = "a command-line program talks to its user here")]
pub(crate) fn step(what: impl std::fmt::Display) {
    eprintln!("xtask: {what}");
}

/// Prints the error that ends the program, as one line with its causes.
#[expect(clippy::print_stderr, reason = "a command-line program talks to its user here")]
pub(crate) fn error(error: &anyhow::Error) {
    eprintln!("xtask: error: {error:#}");
}

/// Passes on several lines of a child's stdout without interleaving lines of other threads.
pub(crate) fn block<'a>(lines: impl Iterator<Item = &'a String>) {
    let mut stdout = std::io::stdout().lock();
    // If the reader has gone, the exit status still reports the result.
    let _is_written = lines.map(|line| writeln!(stdout, "{line}")).all(|written| written.is_ok());
}

/// Passes on one line of a child's stdout.
#[expect(clippy::print_stdout, reason = "the line was on the child's stdout")]
pub(crate) fn output(line: &str) {
    println!("{line}");
}
