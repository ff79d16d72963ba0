//! How many CPUs there are and can be, and which of them share a cache.

use std::fs;
use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;

const CPUS: &str = "/sys/devices/system/cpu";

/// CPUs of this host.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Cpus {
    /// Number of possible CPUs. They are numbered from 0 to `possible - 1`.
    pub possible: u32,
    /// Numbers of the CPUs that are online.
    pub online: Vec<u32>,
    /// Numbers of the online CPUs, grouped by the last-level cache that they share, or by package if the
    /// kernel describes no caches.
    pub caches: Vec<Vec<u32>>,
}

impl Cpus {
    #[must_use]
    pub fn collect() -> Self {
        let online = read_list("online");
        let highest = read_list("possible").into_iter().max().or(online.iter().copied().max()).unwrap_or(0);
        let caches = caches(Path::new(CPUS), &online);
        Self { possible: highest + 1, online, caches }
    }
}

/// The CPUs that are online now. They change, so the agent asks again whenever it has to reach all of them.
#[must_use]
pub fn online() -> Vec<u32> {
    read_list("online")
}

fn read_list(name: &str) -> Vec<u32> {
    list_in(&Path::new(CPUS).join(name))
}

fn list_in(file: &Path) -> Vec<u32> {
    parse_list(&fs::read_to_string(file).unwrap_or_default())
}

/// Puts each CPU into one group. The groups are in the order of their first CPUs.
fn caches(directory: &Path, online: &[u32]) -> Vec<Vec<u32>> {
    let mut groups: Vec<Vec<u32>> = Vec::new();
    for cpu in online {
        if groups.iter().any(|group| group.contains(cpu)) {
            continue;
        }
        let mut group = sharing(&directory.join(format!("cpu{cpu}")));
        let is_free =
            |other: &u32| online.contains(other) && !groups.iter().flatten().any(|known| known == other);
        group.retain(is_free);
        if !group.contains(cpu) {
            group = vec![*cpu];
        }
        groups.push(group);
    }
    groups
}

/// The CPUs with the same last-level cache as this one, or in its package if the kernel describes no caches.
fn sharing(cpu: &Path) -> Vec<u32> {
    let number = |file: &Path| fs::read_to_string(file).ok()?.trim().parse::<u32>().ok();
    let entries = fs::read_dir(cpu.join("cache")).into_iter().flatten().flatten();
    let caches = entries.filter_map(|entry| Some((number(&entry.path().join("level"))?, entry.path())));
    let last = caches.max_by_key(|(level, _)| *level).map(|(_, cache)| cache.join("shared_cpu_list"));
    let files = last.into_iter().chain([cpu.join("topology/package_cpus_list")]);
    files.map(|file| list_in(&file)).find(|cpus| !cpus.is_empty()).unwrap_or_default()
}

/// The kernel's list format: `0-3,8,10-11`.
fn parse_list(list: &str) -> Vec<u32> {
    let ranges = list.trim().split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.parse().ok()?..=last.parse().ok()?)
    });
    ranges.flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_hold_ranges_and_single_numbers() {
        assert_eq!(parse_list("0-2,5,7-8\n"), [0, 1, 2, 5, 7, 8]);
        assert_eq!(parse_list("0\n"), [0]);
        assert!(parse_list("\n").is_empty());
    }

    #[test]
    fn cpus_belong_together_by_their_last_cache_and_otherwise_by_package() {
        let directory = tempfile::tempdir().expect("a directory");
        let write = |file: &str, text: &str| {
            let file = directory.path().join(file);
            fs::create_dir_all(file.parent().expect("a parent")).expect("made");
            fs::write(file, text).expect("written");
        };
        // CPUs 0 and 2 share a cache with CPU 7, which is offline. CPU 1 has no cache, CPU 3 has no topology
        // either.
        for cpu in [0, 2] {
            write(&format!("cpu{cpu}/cache/index0/level"), "1\n");
            write(&format!("cpu{cpu}/cache/index0/shared_cpu_list"), &format!("{cpu}\n"));
            write(&format!("cpu{cpu}/cache/index3/level"), "3\n");
            write(&format!("cpu{cpu}/cache/index3/shared_cpu_list"), "0,2,7\n");
        }
        write("cpu1/topology/package_cpus_list", "1,4\n");
        assert_eq!(caches(directory.path(), &[0, 1, 2, 3, 4]), [vec![0, 2], vec![1, 4], vec![3]]);
    }
}
