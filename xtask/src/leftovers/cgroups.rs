//! Cgroups of tests, in every hierarchy that is mounted, with the processes in them.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::{is_left_over, succeeds};

/// How long killed processes may take to exit.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(20);

pub(super) fn remove() -> Vec<String> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let found = roots(&mounts).into_iter().flat_map(|root| directories(&root));
    let ours = found.filter(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(is_left_over));
    ours.filter(|path| is_removed(path)).map(|path| format!("cgroup {}", path.display())).collect()
}

/// Mount points of the cgroup hierarchies.
fn roots(mounts: &str) -> Vec<PathBuf> {
    let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let cgroups = fields.filter(|fields| matches!(fields.get(2), Some(&("cgroup" | "cgroup2"))));
    cgroups.filter_map(|fields| fields.get(1).map(PathBuf::from)).collect()
}

fn directories(parent: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(parent) else { return Vec::new() };
    let entries = entries.filter_map(Result::ok);
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

/// Kills the processes in a cgroup and below, then removes it, the innermost cgroups first.
fn is_removed(cgroup: &Path) -> bool {
    let end = Instant::now() + PATIENCE;
    loop {
        kill_below(cgroup);
        // `find` descends by file descriptors: a deep cgroup's path can exceed the kernel's limit.
        if succeeds("find", &[&cgroup.to_string_lossy(), "-depth", "-type", "d", "-delete"]) {
            return true;
        }
        if Instant::now() > end {
            return false;
        }
        thread::sleep(PAUSE);
    }
}

fn kill_below(cgroup: &Path) {
    for below in directories(cgroup) {
        kill_below(&below);
    }
    kill_all(cgroup);
}

fn kill_all(cgroup: &Path) {
    let processes = fs::read_to_string(cgroup.join("cgroup.procs")).unwrap_or_default();
    for pid in processes.lines().filter_map(|line| line.parse::<i32>().ok()).filter(|pid| *pid > 1) {
        // SAFETY: `kill` touches no memory of ours.
        unsafe { libc::kill(pid, libc::SIGKILL) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hierarchies_of_both_versions_are_found() {
        let mounts = "proc /proc proc rw 0 0\ncgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        let expected = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/unified"].map(PathBuf::from);
        assert_eq!(roots(mounts), expected);
    }
}
