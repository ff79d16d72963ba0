//! The CPU files of cgroup v2. Every cgroup has `cpu.stat`; the settings exist only where the controller is
//! enabled, and never in the root.
//! <https://github.com/torvalds/linux/blob/v6.12/Documentation/admin-guide/cgroup-v2.rst#cpu-interface-files>

use std::path::Path;

use anyhow::Result;

use crate::cgroup::files::Files;
use crate::cgroup::parse::{self, ParseError};
use crate::domain::cpu::{Stat, quota_cores};
use crate::snapshot::CpuSample;

const STAT: &str = "cpu.stat";
const MAX: &str = "cpu.max";
const BURST: &str = "cpu.max.burst";
const WEIGHT: &str = "cpu.weight";

/// The contents of `cpu.max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Max {
    /// `None` for `max`: no limit.
    pub quota_us: Option<u64>,
    pub period_us: u64,
}

/// `cpu.stat` is read last: if it exists, files that were missing before it do not exist, and the cgroup was
/// not deleted in between.
pub(super) fn read(files: &mut Files, root: &Path, relative: &str) -> Result<Option<CpuSample>> {
    files.enter(root, relative);
    let max = files.read(MAX, parse_max)?;
    let burst_us = files.read(BURST, |text| parse::number(BURST, text))?;
    let weight = files.read(WEIGHT, |text| parse::number(WEIGHT, text))?;
    let stat = match files.read(STAT, parse_stat)? {
        Some(stat) => stat,
        // The root has none before Linux 5.8.
        None if files.directory_exists() => Stat::default(),
        None => return Ok(None),
    };
    let period_us = max.map(|max| max.period_us);
    Ok(Some(CpuSample {
        usage_ns: stat.usage_ns,
        throttling: stat.throttling,
        quota_cores: quota_cores(max.and_then(|max| max.quota_us), period_us),
        period_us,
        burst_us,
        weight,
    }))
}

pub fn parse_stat(text: &str) -> Result<Stat, ParseError> {
    let mut stat = Stat::default();
    for entry in parse::flat_keyed(STAT, text) {
        let throttling = &mut stat.throttling;
        match entry.key {
            "usage_usec" => stat.usage_ns = Some(entry.number()?.saturating_mul(1000)),
            "nr_periods" => throttling.get_or_insert_default().periods = entry.number()?,
            "nr_throttled" => throttling.get_or_insert_default().throttled_periods = entry.number()?,
            "throttled_usec" => {
                throttling.get_or_insert_default().throttled_ns = entry.number()?.saturating_mul(1000);
            }
            _ => {}
        }
    }
    Ok(stat)
}

/// `max 100000` or `150000 100000`.
pub fn parse_max(text: &str) -> Result<Max, ParseError> {
    let error = || ParseError::new(MAX, 1, text.trim_end(), "a quota and a period");
    let (quota, period) = text.trim_end().split_once(' ').ok_or_else(error)?;
    let quota_us = match quota {
        "max" => None,
        quota => Some(quota.parse().map_err(|_| error())?),
    };
    Ok(Max { quota_us, period_us: period.parse().map_err(|_| error())? })
}

#[cfg(test)]
mod tests;
