//! The only place of `xtask` that prints.
//!
//! Steps and errors go to stderr, so that `cargo xtask run -- -o json` leaves clean JSON on stdout. `output`
//! is for what a child wrote to its own stdout and the caller passes on.

use std::io::Write as _;

/// Announces a step: what is done, and why.
#[expect(clippy::print_stderr, reason = "a command-line program talks to its user here")]
pub(crate) fn step(what: impl std::fmt::Display) {
    eprintln!("xtask: {what}");
}

/// Ends the program with one sentence, its causes behind it.
#[expect(clippy::print_stderr, reason = "a command-line program talks to its user here")]
pub(crate) fn error(error: &anyhow::Error) {
    eprintln!("xtask: error: {error:#}");
}

/// Passes on several lines of a child's stdout, with no line of another thread's between them.
pub(crate) fn block<'a>(lines: impl Iterator<Item = &'a String>) {
    let mut stdout = std::io::stdout().lock();
    // A reader that has gone is told of the results by the exit status.
    let _is_written = lines.map(|line| writeln!(stdout, "{line}")).all(|written| written.is_ok());
}

/// Passes on one line of a child's stdout.
#[expect(clippy::print_stdout, reason = "the line was on the child's stdout")]
pub(crate) fn output(line: &str) {
    println!("{line}");
}
