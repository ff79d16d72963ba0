//! State of the machine outside the rig's namespaces that a run may change: saved before, restored and
//! compared after.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::{places, processes};

/// Sysctls that a kubelet sets for the whole machine when it starts.
const SYSCTLS: [&str; 6] = [
    "kernel/keys/root_maxbytes",
    "kernel/keys/root_maxkeys",
    "kernel/panic",
    "kernel/panic_on_oops",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
];

/// State that must be the same after the run.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Machine {
    sysctls: BTreeMap<PathBuf, String>,
    /// The hidden places that existed before.
    directories: BTreeSet<PathBuf>,
}

/// Traces that may exist only while the rig runs.
#[derive(Debug, Default)]
pub(super) struct Traces {
    cgroups: Vec<PathBuf>,
    mounts: Vec<String>,
    processes: Vec<u32>,
}

impl Machine {
    pub(super) fn look() -> Self {
        let sysctls = SYSCTLS.iter().map(|name| Path::new("/proc/sys").join(name));
        Self {
            sysctls: sysctls.filter_map(|path| Some((path.clone(), setting(&path)?))).collect(),
            directories: hidden().filter(|path| path.exists()).map(Path::to_owned).collect(),
        }
    }

    /// Keeps the settings in a file until they are restored. If a run whose supervisor was killed has left
    /// such a file, its settings are used instead.
    pub(super) fn remember(&mut self) -> Result<()> {
        let file = memory();
        if let Ok(text) = fs::read_to_string(&file) {
            (self.sysctls, self.directories) = serde_json::from_str(&text).context("reading old settings")?;
            return Ok(());
        }
        let text = serde_json::to_string(&(&self.sysctls, &self.directories))?;
        fs::write(&file, text).with_context(|| format!("writing {}", file.display()))
    }

    /// Restores the settings, and removes the hidden places that did not exist before.
    pub(super) fn restore(&self) -> Result<()> {
        for (path, value) in &self.sysctls {
            if setting(path).as_ref() != Some(value) {
                fs::write(path, value).with_context(|| format!("putting back {}", path.display()))?;
            }
        }
        remove_cgroups();
        for made in hidden().filter(|path| !self.directories.contains(*path)) {
            // The rig wrote only to its own file systems. If the directory is not empty, another process
            // wrote to it, and it stays.
            drop(fs::remove_dir(made));
        }
        fs::remove_file(memory()).context("removing the file with the settings")
    }

    /// Differences from the state before, as sentences.
    pub(super) fn differences(&self, now: &Self, traces: &Traces) -> Vec<String> {
        let mut found = Vec::new();
        for (path, value) in &self.sysctls {
            let now = now.sysctls.get(path);
            if now != Some(value) {
                found.push(format!("{} is {now:?} and was {value:?}", path.display()));
            }
        }
        found.extend(traces.cgroups.iter().map(|cgroup| format!("{} is left", cgroup.display())));
        found.extend(traces.mounts.iter().map(|mount| format!("{mount} is still mounted")));
        found.extend(traces.processes.iter().map(|pid| format!("process {pid} still runs")));
        found
    }
}

impl Traces {
    pub(super) fn look() -> Self {
        Self {
            cgroups: cgroups().into_iter().filter(|cgroup| cgroup.exists()).collect(),
            mounts: mounts(),
            processes: processes::programs_below(&places::laboratory()),
        }
    }
}

/// The hidden places and their parent directories, each place before its parent.
fn hidden() -> impl Iterator<Item = &'static Path> {
    places::HIDDEN.iter().flat_map(|path| Path::new(path).ancestors().take(2))
}

/// Creates the hidden places as mount points, and the cgroups that all pods are in.
pub(super) fn make_places() -> Result<()> {
    let state = places::state();
    let places = places::HIDDEN.iter().map(Path::new).chain([&*state]);
    let cgroups = cgroups();
    for place in places.chain(cgroups.iter().map(PathBuf::as_path)) {
        fs::create_dir_all(place).with_context(|| format!("making {}", place.display()))?;
    }
    Ok(())
}

fn memory() -> PathBuf {
    places::laboratory().join("before.json")
}

fn setting(path: &Path) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim_end().to_owned())
}

/// Removes the rig's cgroups. A static pod has the same cgroup in every run, so a leftover would be counted
/// in the next run.
pub(super) fn remove_cgroups() {
    for cgroup in cgroups() {
        remove(&cgroup);
    }
}

/// Removes a cgroup and its children as far as they have no processes; the comparison afterwards reports the
/// rest.
fn remove(cgroup: &Path) {
    let entries = fs::read_dir(cgroup).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        remove(&entry.path());
    }
    drop(fs::remove_dir(cgroup));
}

/// The rig's cgroups in all hierarchies.
fn cgroups() -> Vec<PathBuf> {
    hierarchies().iter().map(|root| root.join(places::CGROUP.trim_start_matches('/'))).collect()
}

/// The roots of all cgroup hierarchies.
pub(super) fn hierarchies() -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    mounts.lines().filter_map(cgroup_root).collect()
}

/// The root of the cgroup hierarchy that a line of `/proc/mounts` describes.
fn cgroup_root(line: &str) -> Option<PathBuf> {
    let mut fields = line.split(' ');
    let (place, kind) = (fields.nth(1)?, fields.next()?);
    ["cgroup", "cgroup2"].contains(&kind).then(|| PathBuf::from(place))
}

/// Mounts of the rig that are visible here, where none should be.
fn mounts() -> Vec<String> {
    let ours = places::laboratory().display().to_string();
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let places = mounts.lines().filter_map(|line| line.split(' ').nth(1));
    places.filter(|place| place.starts_with(&ours)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hierarchies_are_found_among_mounts() {
        let root = |line| cgroup_root(line);
        let cpu = "cgroup /sys/fs/cgroup/cpu cgroup rw,relatime,cpu 0 0";
        assert_eq!(root(cpu), Some(PathBuf::from("/sys/fs/cgroup/cpu")));
        let unified = "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0";
        assert_eq!(root(unified), Some(PathBuf::from("/sys/fs/cgroup")));
        assert_eq!(root("tmpfs /sys/fs/cgroup tmpfs rw 0 0"), None);
    }

    #[test]
    fn what_is_left_is_told() {
        let with_panic = |value: &str| Machine {
            sysctls: BTreeMap::from([(PathBuf::from("/proc/sys/kernel/panic"), value.to_owned())]),
            directories: BTreeSet::new(),
        };
        assert!(with_panic("1").differences(&with_panic("1"), &Traces::default()).is_empty());
        let traces =
            Traces { cgroups: vec!["/sys/fs/cgroup/cpu/a".into()], mounts: Vec::new(), processes: vec![7] };
        assert_eq!(with_panic("1").differences(&with_panic("10"), &traces).len(), 3);
    }
}
