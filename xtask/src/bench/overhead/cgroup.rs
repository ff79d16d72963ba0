//! A cgroup for a server or a client of a load, as a container has one, and the CPU time that it has used.
//!
//! The cgroup exists in every hierarchy that the agent may identify workloads by.

use std::fs::{self, File};
use std::os::fd::{AsRawFd, RawFd};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::leftovers;

/// The kernel refuses to remove a cgroup until the last process in it has been freed, shortly after it was
/// reaped.
const PATIENCE: u32 = 50;
const PAUSE: Duration = Duration::from_millis(20);

/// A cgroup that is removed when it is dropped; its processes have to be reaped before.
#[derive(Debug)]
pub(super) struct Cgroup {
    directories: Vec<PathBuf>,
    entries: Vec<File>,
    clock: Clock,
}

/// The file with the CPU time.
#[derive(Debug, PartialEq, Eq)]
enum Clock {
    /// `cpuacct.usage`: nanoseconds.
    V1(PathBuf),
    /// `cpu.stat`: microseconds in the line `usage_usec`.
    V2(PathBuf),
}

/// A mounted hierarchy that the benchmark uses.
#[derive(Debug, PartialEq, Eq)]
struct Hierarchy {
    root: PathBuf,
    is_v2: bool,
    has_usage: bool,
}

impl Cgroup {
    pub(super) fn make(role: &str) -> Result<Self> {
        let mounts = fs::read_to_string("/proc/mounts").context("reading the mounts")?;
        let hierarchies: Vec<Hierarchy> = mounts.lines().filter_map(hierarchy).collect();
        let name = leftovers::name_for_overhead(role);
        let clock =
            clock(&hierarchies, &name).context("no cgroup hierarchy that counts CPU time is mounted")?;
        let mut made = Self { directories: Vec::new(), entries: Vec::new(), clock };
        for hierarchy in hierarchies {
            let directory = hierarchy.root.join(&name);
            fs::create_dir(&directory).with_context(|| format!("making {}", directory.display()))?;
            let entry = directory.join("cgroup.procs");
            made.directories.push(directory);
            let file = File::options().write(true).open(&entry);
            made.entries.push(file.with_context(|| format!("opening {}", entry.display()))?);
        }
        Ok(made)
    }

    /// A process that writes `0` to each of these descriptors enters the cgroup.
    pub(super) fn entries(&self) -> impl Iterator<Item = RawFd> {
        self.entries.iter().map(AsRawFd::as_raw_fd)
    }

    /// The CPU time that all processes in it have used so far, in nanoseconds.
    pub(super) fn usage_ns(&self) -> Result<f64> {
        let (Clock::V1(path) | Clock::V2(path)) = &self.clock;
        let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        let usage = match self.clock {
            Clock::V1(_) => text.trim().parse().ok(),
            Clock::V2(_) => usage_of_v2(&text),
        };
        usage.with_context(|| format!("{} has no CPU time", path.display()))
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        for directory in &self.directories {
            for _ in 0..PATIENCE {
                if fs::remove_dir(directory).is_ok() {
                    break;
                }
                thread::sleep(PAUSE);
            }
        }
    }
}

/// Parses a line of `/proc/mounts`.
fn hierarchy(line: &str) -> Option<Hierarchy> {
    let mut fields = line.split(' ').skip(1);
    let (root, kind, options) = (fields.next()?, fields.next()?, fields.next()?);
    let has = |controller| options.split(',').any(|option| option == controller);
    let is_v2 = kind == "cgroup2";
    let is_wanted = is_v2 || (kind == "cgroup" && (has("cpu") || has("cpuacct")));
    is_wanted.then(|| Hierarchy { root: root.into(), is_v2, has_usage: is_v2 || has("cpuacct") })
}

/// Prefers version 1, which counts in nanoseconds.
fn clock(hierarchies: &[Hierarchy], name: &str) -> Option<Clock> {
    let found = hierarchies.iter().filter(|hierarchy| hierarchy.has_usage).min_by_key(|it| it.is_v2)?;
    let directory = found.root.join(name);
    Some(if found.is_v2 {
        Clock::V2(directory.join("cpu.stat"))
    } else {
        Clock::V1(directory.join("cpuacct.usage"))
    })
}

fn usage_of_v2(text: &str) -> Option<f64> {
    let usage: f64 = text.lines().find_map(|line| line.strip_prefix("usage_usec "))?.trim().parse().ok()?;
    Some(usage * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hierarchies_with_cpu_time_are_found() {
        let cpu = hierarchy("cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0").unwrap();
        assert!(cpu.has_usage && !cpu.is_v2);
        let cpu = hierarchy("cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0").unwrap();
        assert!(!cpu.has_usage);
        let unified = hierarchy("cgroup2 /sys/fs/cgroup/unified cgroup2 rw,nsdelegate 0 0").unwrap();
        assert!(unified.is_v2 && unified.has_usage);
        assert_eq!(hierarchy("cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0"), None);
        assert_eq!(hierarchy("tmpfs /sys/fs/cgroup tmpfs rw,mode=755 0 0"), None);

        let both = [unified, cpu, hierarchy("none /c cgroup rw,cpuacct 0 0").unwrap()];
        assert_eq!(clock(&both, "x"), Some(Clock::V1("/c/x/cpuacct.usage".into())));
        assert_eq!(clock(&both[..1], "x"), Some(Clock::V2("/sys/fs/cgroup/unified/x/cpu.stat".into())));
        assert_eq!(clock(&both[1..2], "x"), None);
    }

    #[test]
    fn cpu_time_of_version_2_is_in_microseconds() {
        assert_eq!(usage_of_v2("usage_usec 12\nuser_usec 5\n"), Some(12_000.0));
        assert_eq!(usage_of_v2("user_usec 5\n"), None);
    }
}
