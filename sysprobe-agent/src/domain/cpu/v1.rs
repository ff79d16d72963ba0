//! The CPU files of cgroup v1: bandwidth and shares in the `cpu` hierarchy, usage in the `cpuacct` hierarchy,
//! which may be another. <https://github.com/torvalds/linux/blob/v6.12/Documentation/scheduler/sched-bwc.rst>

use std::path::Path;

use anyhow::Result;

use crate::cgroup::files::Files;
use crate::cgroup::parse::{self, ParseError};
use crate::domain::cpu::{Stat, quota_cores};
use crate::snapshot::CpuSample;

const STAT: &str = "cpu.stat";
const QUOTA: &str = "cpu.cfs_quota_us";
const PERIOD: &str = "cpu.cfs_period_us";
/// Since Linux 5.14.
const BURST: &str = "cpu.cfs_burst_us";
const SHARES: &str = "cpu.shares";
const USAGE: &str = "cpuacct.usage";

/// `cpu.stat` is read last: if it exists, files that were missing before it do not exist, and the cgroup was
/// not deleted in between.
pub(super) fn read(
    files: &mut Files,
    cpu: &Path,
    cpuacct: Option<&Path>,
    relative: &str,
) -> Result<Option<CpuSample>> {
    let mut usage_ns = None;
    if let Some(cpuacct) = cpuacct {
        files.enter(cpuacct, relative);
        usage_ns = files.read(USAGE, |text| parse::number(USAGE, text))?;
    }
    files.enter(cpu, relative);
    let quota_us = files.read(QUOTA, parse_quota)?.flatten();
    let period_us = files.read(PERIOD, |text| parse::number(PERIOD, text))?;
    let burst_us = files.read(BURST, |text| parse::number(BURST, text))?;
    let shares = files.read(SHARES, |text| parse::number(SHARES, text))?;
    let stat = match files.read(STAT, parse_stat)? {
        Some(stat) => stat,
        // A kernel without `CONFIG_CFS_BANDWIDTH` has shares only.
        None if files.directory_exists() => Stat::default(),
        None => return Ok(None),
    };
    Ok(Some(CpuSample {
        usage_ns,
        throttling: stat.throttling,
        quota_cores: quota_cores(quota_us, period_us),
        period_us,
        burst_us,
        weight: shares.map(weight_of_shares),
    }))
}

/// There is a `cpu.stat` in every cgroup; without a quota it counts no periods.
pub fn parse_stat(text: &str) -> Result<Stat, ParseError> {
    let mut stat = Stat::default();
    for entry in parse::flat_keyed(STAT, text) {
        let throttling = &mut stat.throttling;
        match entry.key {
            "nr_periods" => throttling.get_or_insert_default().periods = entry.number()?,
            "nr_throttled" => throttling.get_or_insert_default().throttled_periods = entry.number()?,
            // Nanoseconds, unlike `throttled_usec` on v2.
            "throttled_time" => throttling.get_or_insert_default().throttled_ns = entry.number()?,
            _ => {}
        }
    }
    Ok(stat)
}

/// `-1` means no limit.
pub fn parse_quota(text: &str) -> Result<Option<u64>, ParseError> {
    match text.trim_end() {
        "-1" => Ok(None),
        _ => parse::number(QUOTA, text).map(Some),
    }
}

/// The linear map of shares (2..262144) to weights (1..10000) that the kubelet applies on cgroup v2.
/// <https://github.com/kubernetes/enhancements/tree/master/keps/sig-node/2254-cgroup-v2>
#[must_use]
pub fn weight_of_shares(shares: u64) -> u64 {
    1 + (shares.clamp(2, 262_144) - 2) * 9999 / 262_142
}

#[cfg(test)]
mod tests;
