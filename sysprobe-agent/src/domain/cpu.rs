//! The CPU controller's totals and settings of one cgroup, read from its files on request, on cgroup v1 and
//! v2.
//!
//! This module reads the files; the parsers in `v1` and `v2` are pure. Only a buffer is kept between two
//! reads: a caller that needs the totals of a deleted cgroup keeps its last sample. Blocking.

use anyhow::{Context, Result};

use crate::cgroup::files::{Files, relative};
use crate::cgroup::mounts::KeyHierarchy;
use crate::snapshot::{CpuSample, Throttling};

pub mod v1;
pub mod v2;

/// Reads the CPU files of any cgroup of one hierarchy.
#[derive(Debug)]
pub struct CpuFiles {
    hierarchy: KeyHierarchy,
    files: Files,
}

/// The contents of `cpu.stat`, in the units of a `CpuSample`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// Only on v2.
    pub usage_ns: Option<u64>,
    /// `None` on v2 where the controller is not enabled for the cgroup, and for the root.
    pub throttling: Option<Throttling>,
}

impl CpuFiles {
    #[must_use]
    pub fn new(hierarchy: KeyHierarchy) -> Self {
        Self { hierarchy, files: Files::default() }
    }

    /// `cgroup` is a path from the hierarchy's root. `None` if the cgroup does not exist or was deleted.
    pub fn read(&mut self, cgroup: &str) -> Result<Option<CpuSample>> {
        let relative = relative(cgroup)?;
        let sample = match &self.hierarchy {
            KeyHierarchy::V2 { root } => v2::read(&mut self.files, root, relative),
            KeyHierarchy::V1 { root, cpuacct, .. } => {
                v1::read(&mut self.files, root, cpuacct.as_deref(), relative)
            }
        };
        sample.with_context(|| format!("reading the CPU files of cgroup `{}`", cgroup.escape_debug()))
    }
}

fn quota_cores(quota_us: Option<u64>, period_us: Option<u64>) -> Option<f64> {
    let period_us = period_us.filter(|period_us| *period_us > 0)?;
    Some(quota_us? as f64 / period_us as f64)
}

#[cfg(test)]
mod tests;
