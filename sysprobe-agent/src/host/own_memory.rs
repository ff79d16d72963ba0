//! The agent's own memory cgroups: how much more may be charged to them before a limit is reached. This
//! module does not decide what to do about it.

use std::path::{Path, PathBuf};

use procfs::process::{MountInfo, Process};
use schemars::JsonSchema;
use serde::Serialize;

use super::memory_names;

/// A memory cgroup of the agent: its own, or an ancestor that is visible to it.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct MemoryGroup {
    /// Directory of the cgroup.
    pub directory: PathBuf,
    /// Whether the cgroup is on cgroup v1, whose file names differ from those of v2.
    pub is_v1: bool,
}

/// A group's limit and usage, from its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    pub limit: u64,
    /// Excludes inactive file pages, which the kernel reclaims first.
    pub used: u64,
}

/// cgroup v1 reports no limit as the largest number of whole pages, which is above this.
const NO_LIMIT: u64 = 1 << 62;

impl MemoryGroup {
    /// The process's own group and its ancestors, as far as a mount shows them. Empty if none is visible.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let Ok(process) = Process::myself() else { return Vec::new() };
        let (Ok(cgroups), Ok(mounts)) = (process.cgroups(), process.mountinfo()) else { return Vec::new() };
        let path = |is_v1: bool| {
            let mut groups = cgroups.0.iter();
            let wanted = groups.find(|group| {
                let has_memory = group.controllers.iter().any(|name| name == "memory");
                if is_v1 { has_memory } else { group.hierarchy == 0 }
            });
            wanted.map(|group| PathBuf::from(&group.pathname))
        };
        let of = |is_v1| path(is_v1).map(|path| Self::along(&mounts.0, &path, is_v1)).unwrap_or_default();
        let v1 = of(true);
        if v1.is_empty() { of(false) } else { v1 }
    }

    /// The group with that path and its ancestors, up to the root of the first mount that contains it.
    fn along(mounts: &[MountInfo], path: &Path, is_v1: bool) -> Vec<Self> {
        let has_memory = |mount: &MountInfo| {
            let of_v1 = mount.fs_type == "cgroup" && mount.super_options.contains_key("memory");
            if is_v1 { of_v1 } else { mount.fs_type == "cgroup2" }
        };
        let mut found = mounts.iter().filter(|mount| has_memory(mount)).filter_map(|mount| {
            let below = path.strip_prefix(&mount.root).ok()?;
            // Removes the slash that joining an empty path leaves at the end.
            Some((mount.mount_point.clone(), mount.mount_point.join(below).components().collect::<PathBuf>()))
        });
        let Some((top, own)) = found.next() else { return Vec::new() };
        let groups = own.ancestors().take_while(|directory| directory.starts_with(&top));
        groups.map(|directory| Self { directory: directory.to_owned(), is_v1 }).collect()
    }

    /// `None` without a limit, or if the files cannot be read.
    #[must_use]
    pub fn usage(&self) -> Option<Usage> {
        let names = if self.is_v1 { &memory_names::V1 } else { &memory_names::V2 };
        let read = |name| std::fs::read_to_string(self.directory.join(name)).ok();
        let number = |name| read(name)?.trim().parse::<u64>().ok();
        let limit = number(names.limit).filter(|limit| *limit < NO_LIMIT)?;
        let usage = number(names.usage)?;
        let statistics = read(names.stat).unwrap_or_default();
        let entries = statistics.lines().filter_map(|line| line.split_once(' '));
        let inactive =
            entries.filter(|(key, _)| *key == names.inactive_file).find_map(|(_, value)| value.parse().ok());
        Some(Usage { limit, used: usage.saturating_sub(inactive.unwrap_or(0)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mounts(lines: &str) -> Vec<MountInfo> {
        lines.lines().map(|line| MountInfo::from_line(line).expect("a mount")).collect()
    }

    fn directories(mounted: &str, path: &str, is_v1: bool) -> Vec<String> {
        let groups = MemoryGroup::along(&mounts(mounted), Path::new(path), is_v1);
        groups.iter().map(|group| group.directory.display().to_string()).collect()
    }

    #[test]
    fn a_container_finds_its_own_group_and_not_the_hosts_mount() {
        let mounted = "30 1 0:26 /../../.. /host/sys/fs/cgroup ro - cgroup2 cgroup2 rw\n\
                       31 1 0:26 / /sys/fs/cgroup ro - cgroup2 cgroup rw";
        assert_eq!(directories(mounted, "/", false), ["/sys/fs/cgroup"]);
    }

    #[test]
    fn on_v1_a_container_sees_the_whole_path_but_only_its_own_part_of_the_mount() {
        let mounted = "40 1 0:30 /kubepods/pod1/abc /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu,cpuacct\n\
                       41 1 0:31 /kubepods/pod1/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory";
        assert_eq!(directories(mounted, "/kubepods/pod1/abc", true), ["/sys/fs/cgroup/memory"]);
    }

    #[test]
    fn on_the_host_all_groups_above_count() {
        let mounted = "25 1 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw";
        assert_eq!(
            directories(mounted, "/system.slice/sysprobe.service", false),
            ["/sys/fs/cgroup/system.slice/sysprobe.service", "/sys/fs/cgroup/system.slice", "/sys/fs/cgroup"]
        );
    }

    fn usage(files: &[(&str, &str)], is_v1: bool) -> Option<Usage> {
        let directory = tempfile::tempdir().expect("a directory");
        for (name, text) in files {
            std::fs::write(directory.path().join(name), text).expect("written");
        }
        MemoryGroup { directory: directory.path().to_owned(), is_v1 }.usage()
    }

    #[test]
    fn without_a_limit_there_is_nothing_to_keep_to() {
        assert_eq!(usage(&[("memory.max", "max\n"), ("memory.current", "5\n")], false), None);
        let largest = "9223372036854771712\n";
        assert_eq!(
            usage(&[("memory.limit_in_bytes", largest), ("memory.usage_in_bytes", "5\n")], true),
            None
        );
        assert_eq!(usage(&[], false), None);
    }

    #[test]
    fn what_the_kernel_would_drop_first_is_not_in_use() {
        let stat = "anon 5\ninactive_file 300\n";
        let files = [("memory.max", "4096\n"), ("memory.current", "1300\n"), ("memory.stat", stat)];
        assert_eq!(usage(&files, false), Some(Usage { limit: 4096, used: 1000 }));
    }
}
