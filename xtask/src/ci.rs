//! `cargo xtask ci`: everything that has to pass before a change is merged.

use anyhow::Result;

use crate::{cost, docs, lint, say, test};

pub(crate) fn main() -> Result<()> {
    lint::main()?;
    test::main(&test::Args::everything())?;
    docs::main(&docs::Args::checking())?;
    cost::main(&cost::Args::checking())?;
    say::step("Everything passed.");
    Ok(())
}
