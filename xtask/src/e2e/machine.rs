//! What a run may change on the machine outside of its own namespaces: noted before, put back after,
//! compared.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::{places, processes};

/// What a kubelet sets for the whole machine when it starts.
const SYSCTLS: [&str; 6] = [
    "kernel/keys/root_maxbytes",
    "kernel/keys/root_maxkeys",
    "kernel/panic",
    "kernel/panic_on_oops",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
];

/// What has to be the same afterwards.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Machine {
    sysctls: BTreeMap<PathBuf, String>,
    /// Those of the hidden places that were there.
    directories: BTreeSet<PathBuf>,
}

/// What is there only while the rig runs.
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

    /// Keeps the settings in a file until they have been put back, or takes over those that a run left there
    /// whose supervisor was killed.
    pub(super) fn remember(&mut self) -> Result<()> {
        let file = memory();
        if let Ok(text) = fs::read_to_string(&file) {
            (self.sysctls, self.directories) = serde_json::from_str(&text).context("reading old settings")?;
            return Ok(());
        }
        let text = serde_json::to_string(&(&self.sysctls, &self.directories))?;
        fs::write(&file, text).with_context(|| format!("writing {}", file.display()))
    }

    /// Puts back what can be: the numbers, and the places that were not there.
    pub(super) fn restore(&self) -> Result<()> {
        for (path, value) in &self.sysctls {
            if setting(path).as_ref() != Some(value) {
                fs::write(path, value).with_context(|| format!("putting back {}", path.display()))?;
            }
        }
        remove_cgroups();
        for made in hidden().filter(|path| !self.directories.contains(*path)) {
            // What the rig wrote there it wrote into its own file system. If there is anything, another
            // process wrote it, and it stays.
            drop(fs::remove_dir(made));
        }
        fs::remove_file(memory()).context("removing the file with the settings")
    }

    /// What is not as it was before, as sentences.
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

/// The hidden places with the directories that they are in, the deepest first.
fn hidden() -> impl Iterator<Item = &'static Path> {
    places::HIDDEN.iter().flat_map(|path| Path::new(path).ancestors().take(2))
}

/// Makes the places that are hidden, so that something can be mounted there, and the cgroups that all pods
/// are in.
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

/// Removes the rig's cgroups: a static pod has the same in every run, so that what is left in it would be
/// taken for a part of the next.
pub(super) fn remove_cgroups() {
    for cgroup in cgroups() {
        remove(&cgroup);
    }
}

/// Removes a cgroup with those below it, as far as no process is in them; the comparison afterwards tells the
/// rest.
fn remove(cgroup: &Path) {
    let entries = fs::read_dir(cgroup).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        remove(&entry.path());
    }
    drop(fs::remove_dir(cgroup));
}

/// Where the rig's cgroups are, in all hierarchies.
fn cgroups() -> Vec<PathBuf> {
    hierarchies().iter().map(|root| root.join(places::CGROUP.trim_start_matches('/'))).collect()
}

/// Where cgroups are, by the roots of all hierarchies.
pub(super) fn hierarchies() -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    mounts.lines().filter_map(cgroup_root).collect()
}

/// Where a line of `/proc/mounts` has a cgroup hierarchy.
fn cgroup_root(line: &str) -> Option<PathBuf> {
    let mut fields = line.split(' ');
    let (place, kind) = (fields.nth(1)?, fields.next()?);
    ["cgroup", "cgroup2"].contains(&kind).then(|| PathBuf::from(place))
}

/// Mounts of the rig that are seen from here, where none should be.
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
