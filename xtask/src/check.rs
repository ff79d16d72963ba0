//! `cargo xtask check`: the checks that a change must pass before it is committed. They take a minute:
//! format, the repository's own rules, lints, unit tests. `cargo xtask ci` also covers the kernel side,
//! licences and documents.

use anyhow::Result;

use crate::{lint, say, test};

pub(crate) fn main() -> Result<()> {
    lint::quick()?;
    test::main(&test::Args::units())?;
    say::step("Format, rules, lints and unit tests are as they should be.");
    Ok(())
}
