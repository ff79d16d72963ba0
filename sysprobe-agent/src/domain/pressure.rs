//! Pressure stall information (PSI) of one cgroup, read from its files on request: how long its tasks waited
//! for a resource. The kernel provides it on the default hierarchy only. Only a buffer is kept between two
//! reads. Blocking. <https://github.com/torvalds/linux/blob/v6.12/Documentation/accounting/psi.rst>

use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::cgroup::files::{Files, Place, relative};
use crate::cgroup::mounts::KeyHierarchy;
use crate::cgroup::parse::ParseError;
use crate::snapshot::{PressureSample, StallSample};

const CPU: &str = "cpu.pressure";
const MEMORY: &str = "memory.pressure";
const IO: &str = "io.pressure";

/// Reads the pressure of any cgroup.
#[derive(Debug)]
pub struct PressureFiles {
    root: PathBuf,
    files: Files,
}

impl PressureFiles {
    /// `None` on cgroup v1.
    #[must_use]
    pub fn new(hierarchy: &KeyHierarchy) -> Option<Self> {
        match hierarchy {
            KeyHierarchy::V2 { root } => Some(Self { root: root.clone(), files: Files::default() }),
            KeyHierarchy::V1 { .. } => None,
        }
    }

    /// `cgroup` is a path from the hierarchy's root. `None` if the cgroup does not exist or was deleted, if
    /// its pressure is turned off (`cgroup.pressure`), or if it is an inner cgroup. Pods are read, too: a
    /// pod's pressure is not the sum of its containers', which may wait at the same time.
    pub(crate) fn read(&mut self, cgroup: &str, place: Place) -> Result<Option<PressureSample>> {
        let relative = relative(cgroup)?;
        if place == Place::Inner {
            return Ok(None);
        }
        self.files.enter(&self.root, relative);
        let sample = self.read_entered();
        sample.with_context(|| format!("reading the pressure of cgroup `{}`", cgroup.escape_debug()))
    }

    fn read_entered(&mut self) -> Result<Option<PressureSample>> {
        // Either all three files exist, or none does.
        let Some(cpu) = self.read_file(CPU)? else { return Ok(None) };
        let (memory, io) = (self.read_file(MEMORY)?, self.read_file(IO)?);
        Ok(Some(PressureSample { cpu, memory: memory.unwrap_or_default(), io: io.unwrap_or_default() }))
    }

    fn read_file(&mut self, file: &'static str) -> Result<Option<StallSample>> {
        self.files.read(file, |text| parse(file, text))
    }
}

/// `some avg10=0.00 avg60=0.00 avg300=0.00 total=1234`, and a line `full` of the same form, which
/// `cpu.pressure` has since Linux 5.13. The totals are microseconds.
fn parse(file: &'static str, text: &str) -> Result<StallSample, ParseError> {
    let mut stall = StallSample::default();
    for (index, line) in text.lines().enumerate() {
        let mut fields = line.split(' ');
        let total = match fields.next() {
            Some("some") => &mut stall.waiting_ns,
            Some("full") => &mut stall.stalled_ns,
            _ => continue,
        };
        let microseconds = fields.find_map(|field| field.strip_prefix("total=")?.parse::<u64>().ok());
        let microseconds =
            microseconds.ok_or_else(|| ParseError::new(file, index + 1, line, "a total of microseconds"))?;
        *total = Some(microseconds.saturating_mul(1000));
    }
    Ok(stall)
}

#[cfg(test)]
mod tests;
