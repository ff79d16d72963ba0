//! `cargo xtask check`: what a change must pass before it is committed, in a minute: format, the repository's
//! own rules, lints, unit tests. Tests of the kernel side, licences and documents are left to
//! `cargo xtask ci`.

use anyhow::Result;

use crate::{lint, say, test};

pub(crate) fn main() -> Result<()> {
    lint::quick()?;
    test::main(&test::Args::units())?;
    say::step("Format, rules, lints and unit tests are as they should be.");
    Ok(())
}
