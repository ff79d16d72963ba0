//! The kernel's own numbers about a container, found through its first process: its cgroup, and the CPU time
//! that it has used.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::cluster::Container;
use super::{places, report};

/// The cgroup hierarchy that accounts CPU time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hierarchy {
    root: PathBuf,
    is_v1: bool,
}

impl Hierarchy {
    /// Finds the hierarchy that accounts CPU time on this machine.
    pub(super) fn of_cpu_time() -> Result<Self> {
        let mounts = fs::read_to_string("/proc/mounts")?;
        hierarchy(&mounts).context("no cgroup hierarchy that accounts CPU time is mounted")
    }

    /// The CPU time of the cgroup at this path, in nanoseconds.
    pub(super) fn usage(&self, path: &str) -> Result<u64> {
        let cgroup = self.root.join(path.trim_start_matches('/'));
        let file = cgroup.join(if self.is_v1 { "cpuacct.usage" } else { "cpu.stat" });
        let text = fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
        self.parse(&text).with_context(|| format!("{} holds no time", file.display()))
    }

    pub(super) fn usage_of_process(&self, pid: u32) -> Result<u64> {
        self.usage(&self.path_of(pid)?)
    }

    /// The cgroup of a process.
    pub(super) fn path_of(&self, pid: u32) -> Result<String> {
        let text = fs::read_to_string(format!("/proc/{pid}/cgroup"))?;
        let path = text.lines().find_map(|line| self.path_in(line));
        path.map(str::to_owned).with_context(|| format!("process {pid} has no cgroup"))
    }

    /// The path from `2:cpuacct,cpu:/path` or `0::/path`, if the line belongs to this hierarchy.
    fn path_in<'a>(&self, line: &'a str) -> Option<&'a str> {
        let mut fields = line.splitn(3, ':');
        let controllers = fields.nth(1)?;
        let is_ours = if self.is_v1 {
            controllers.split(',').any(|name| name == "cpuacct")
        } else {
            controllers.is_empty()
        };
        is_ours.then(|| fields.next())?
    }

    fn parse(&self, text: &str) -> Option<u64> {
        if self.is_v1 {
            return text.trim().parse().ok();
        }
        let microseconds = text.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
        Some(microseconds.parse::<u64>().ok()? * 1000)
    }
}

fn hierarchy(mounts: &str) -> Option<Hierarchy> {
    let found = |is_v1: bool| {
        mounts.lines().find_map(|line| {
            let fields: Vec<&str> = line.split(' ').collect();
            let (place, kind, options) = (fields.get(1)?, fields.get(2)?, fields.get(3)?);
            let fits = if is_v1 {
                *kind == "cgroup" && options.split(',').any(|option| option == "cpuacct")
            } else {
                *kind == "cgroup2"
            };
            fits.then(|| Hierarchy { root: Path::new(place).to_owned(), is_v1 })
        })
    };
    found(true).or_else(|| found(false))
}

/// Checks that every running container is in the cgroup that the kubelet's rules give it.
pub(super) fn check_paths(containers: &[Container]) -> Result<String> {
    let hierarchy = Hierarchy::of_cpu_time()?;
    let begin = format!("{}/kubepods/", places::CGROUP);
    let (mut faults, mut example) = (Vec::new(), String::new());
    let running = containers.iter().filter_map(|container| Some((container, container.pid?)));
    let running: Vec<_> = running.collect();
    for (container, pid) in &running {
        // A container that has ended since has no cgroup.
        let Ok(path) = hierarchy.path_of(*pid) else { continue };
        let end = format!("/pod{}/{}", container.uid, container.id);
        if !path.starts_with(&begin) || !path.ends_with(&end) {
            faults.push(format!("{} is in {path}", container.workload()));
        }
        example = path;
    }
    report::none_of(&faults, format!("{} containers, such as {example}", running.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_read_from_either_version() {
        let mixed = "cgroup /sys/fs/cgroup/cpu cgroup rw,relatime,cpu 0 0\n\
                     cgroup /sys/fs/cgroup/cpuacct cgroup rw,relatime,cpuacct 0 0\n\
                     cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        let v1 = hierarchy(mixed).unwrap();
        assert_eq!(v1.root, Path::new("/sys/fs/cgroup/cpuacct"));
        assert_eq!((v1.path_in("2:cpu,cpuacct:/a:b"), v1.path_in("0::/a")), (Some("/a:b"), None));
        assert_eq!(v1.parse("12\n"), Some(12));

        let v2 = hierarchy("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n").unwrap();
        assert_eq!((v2.path_in("0::/a"), v2.path_in("2:cpuacct:/a")), (Some("/a"), None));
        assert_eq!(v2.parse("usage_usec 12\nuser_usec 3\n"), Some(12_000));
    }
}
