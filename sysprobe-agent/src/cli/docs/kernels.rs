//! The part of `kernels.md` that lists known bugs.

use std::io::{self, Write};

use crate::host::known_bugs::KNOWN_BUGS;

pub(super) fn write(out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "| bug | kernels | what happens | what sysprobe does |\n|---|---|---|---|")?;
    for bug in KNOWN_BUGS {
        let series: Vec<String> = bug.series.iter().map(|series| format!("`{series}`")).collect();
        writeln!(
            out,
            "| `{}` | {} | {} Concerns {}. | {} |",
            bug.name,
            bug.kernels,
            bug.what,
            series.join(", "),
            bug.remedy
        )?;
    }
    Ok(())
}
