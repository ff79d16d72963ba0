//! The results: one line for each check, and the total.

use anyhow::{Result, bail};

use crate::say;

#[derive(Debug, Default)]
pub(super) struct Report {
    passed: usize,
    failed: Vec<String>,
}

impl Report {
    /// Prints one line to stdout: the scenario, the condition, and what was seen.
    pub(super) fn check(&mut self, scenario: &str, what: &str, seen: Result<String>) {
        match seen {
            Ok(seen) => {
                self.passed += 1;
                say::output(&format!("ok    {scenario:<10} {what}: {seen}"));
            }
            Err(error) => {
                self.failed.push(format!("{scenario}: {what}"));
                say::output(&format!("FAIL  {scenario:<10} {what}: {error:#}"));
            }
        }
    }

    pub(super) fn judge(self) -> Result<()> {
        say::output(&format!("{} checks passed, {} failed", self.passed, self.failed.len()));
        if !self.failed.is_empty() {
            bail!("failed: {}", self.failed.join("; "));
        }
        Ok(())
    }
}

/// Fails with the first fault and the number of faults; without faults, returns `seen`.
pub(super) fn none_of(faults: &[String], seen: String) -> Result<String> {
    match faults {
        [] => Ok(seen),
        [first] => bail!("{first}"),
        [first, second, ..] => bail!("{} faults, such as: {first}; {second}", faults.len()),
    }
}
