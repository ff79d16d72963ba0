//! The memory controller's counters and gauges of one cgroup, read from its files on request, on cgroup v1
//! and v2. Only a buffer is kept between two reads. Blocking.
//!
//! The numbers cover the cgroup and everything below it, as limits do. On v2, kills are therefore read from
//! `memory.events` and not from `memory.events.local`: a container that creates cgroups of its own (an init
//! system, a nested runtime) loses its processes there. v1 counts kills in the killed task's own cgroup only.
//! <https://github.com/torvalds/linux/blob/v6.12/Documentation/admin-guide/cgroup-v2.rst>

use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::cgroup::files::{Files, Place, relative};
use crate::cgroup::mounts::KeyHierarchy;
use crate::cgroup::parse::{self, ParseError};
use crate::host::memory_names::{self, MemoryNames};
use crate::snapshot::{MemoryLevels, MemorySample};

/// Reads the memory files of any cgroup of one hierarchy.
#[derive(Debug)]
pub struct MemoryFiles {
    root: PathBuf,
    names: &'static MemoryNames,
    files: Files,
}

/// The fields of `memory.stat` that are exported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Stat {
    inactive_file: Option<u64>,
    major_faults: Option<u64>,
}

impl MemoryFiles {
    /// `None` if cgroup v1 has no memory controller.
    #[must_use]
    pub fn new(hierarchy: &KeyHierarchy) -> Option<Self> {
        let (root, names) = match hierarchy {
            KeyHierarchy::V2 { root } => (root, &memory_names::V2),
            KeyHierarchy::V1 { memory, .. } => (memory.as_ref()?, &memory_names::V1),
        };
        Some(Self { root: root.clone(), names, files: Files::default() })
    }

    /// `cgroup` is a path from the hierarchy's root. `None` if the cgroup does not exist or was deleted, if
    /// the controller is not enabled for it, or if it is an inner cgroup without a limit of its own.
    pub(crate) fn read(&mut self, cgroup: &str, place: Place) -> Result<Option<MemorySample>> {
        let relative = relative(cgroup)?;
        self.files.enter(&self.root, relative);
        let sample = self.read_entered(place);
        sample.with_context(|| format!("reading the memory files of cgroup `{}`", cgroup.escape_debug()))
    }

    /// The largest file is read last: if it exists, the cgroup was not deleted in between.
    fn read_entered(&mut self, place: Place) -> Result<Option<MemorySample>> {
        let Self { names, files, .. } = self;
        let Some(limit_bytes) = files.read(names.limit, |text| parse_limit(names.limit, text))? else {
            return Ok(None);
        };
        if place != Place::Workload && limit_bytes.is_none() {
            return Ok(None);
        }
        let usage = files.read(names.usage, |text| parse::number(names.usage, text))?;
        let oom_kills = files.read(names.events, |text| parse_kills(names.events, text))?.flatten();
        let stat = files.read(names.stat, |text| parse_stat(names, text))?;
        let (Some(usage_bytes), Some(stat)) = (usage, stat) else { return Ok(None) };
        let working_set_bytes = usage_bytes.saturating_sub(stat.inactive_file.unwrap_or(0));
        Ok(Some(MemorySample {
            levels: Some(MemoryLevels { usage_bytes, working_set_bytes, limit_bytes }),
            oom_kills,
            major_faults: stat.major_faults,
        }))
    }
}

/// `max`, or bytes. v1 reports "no limit" as the largest `long` rounded down to whole pages, which depends on
/// the page size; no machine has half of that.
fn parse_limit(file: &'static str, text: &str) -> Result<Option<u64>, ParseError> {
    const UNLIMITED: u64 = 1 << 62;
    match text.trim_end() {
        "max" => Ok(None),
        _ => Ok(Some(parse::number(file, text)?).filter(|limit| *limit < UNLIMITED)),
    }
}

/// Both files have the key since Linux 4.13.
fn parse_kills(file: &'static str, text: &str) -> Result<Option<u64>, ParseError> {
    parse::flat_keyed(file, text)
        .find(|entry| entry.key == "oom_kill")
        .map(|entry| entry.number())
        .transpose()
}

fn parse_stat(names: &MemoryNames, text: &str) -> Result<Stat, ParseError> {
    let mut stat = Stat::default();
    for entry in parse::flat_keyed(names.stat, text) {
        if entry.key == names.inactive_file {
            stat.inactive_file = Some(entry.number()?);
        } else if entry.key == names.major_faults {
            stat.major_faults = Some(entry.number()?);
        }
    }
    Ok(stat)
}

#[cfg(test)]
mod tests;
