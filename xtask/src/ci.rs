//! `cargo xtask ci`: everything that has to pass before a change is merged.

use anyhow::Result;

use crate::{chart, cost, docs, lint, say, test};

pub(crate) fn main() -> Result<()> {
    lint::main()?;
    test::main(&test::Args::everything())?;
    docs::main(&docs::Args::checking())?;
    chart::main(&chart::Args::checking())?;
    cost::main(&cost::Args::checking())?;
    say::step("Everything passed.");
    Ok(())
}
