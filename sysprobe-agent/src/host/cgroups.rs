//! Which cgroup hierarchy identifies workloads on this host, and what it offers besides the CPU controller.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, bail};

use super::{Hierarchy, Pressure};
use crate::cgroup::files::is_unsupported;
use crate::cgroup::mounts::{KeyHierarchy, Mounts};

/// Reads the mounts. `under` limits them to a directory where the host's are mounted.
pub(super) fn collect(under: Option<&Path>) -> anyhow::Result<Hierarchy> {
    let mountinfo = fs::read_to_string("/proc/self/mountinfo").context("reading /proc/self/mountinfo")?;
    let mounts = match under {
        Some(directory) => Mounts::under(&mountinfo, directory),
        None => Mounts::parse(&mountinfo),
    };
    let Some(key) = mounts.key() else {
        bail!(
            "no cgroup hierarchy is mounted: mount one, or name the directory of the host's cgroup mounts \
             with --cgroup-root"
        );
    };
    let root = key.root();
    let root_id = root.metadata().with_context(|| format!("inspecting {}", root.display()))?.ino();
    let memory = match &key {
        KeyHierarchy::V1 { memory, .. } => memory.is_some(),
        KeyHierarchy::V2 { root } => has_controller(root, "memory"),
    };
    let pressure = pressure(fs::read_to_string(root.join("cpu.pressure")));
    Ok(Hierarchy { key, root_id, memory, pressure })
}

fn has_controller(root: &Path, name: &str) -> bool {
    let controllers = fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
    controllers.split_whitespace().any(|has| has == name)
}

/// Judges by the root cgroup's file, since the root has the same pressure files as all others (Linux 5.2).
fn pressure(root: io::Result<String>) -> Pressure {
    match root {
        Ok(_) => Pressure::Kept,
        Err(error) if is_unsupported(&error) => Pressure::Off,
        Err(_) => Pressure::Absent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controllers_are_whole_words() {
        let root = tempfile::tempdir().expect("a directory");
        assert!(!has_controller(root.path(), "memory"));
        fs::write(root.path().join("cgroup.controllers"), "cpuset cpu io memory pids\n").expect("written");
        assert!(has_controller(root.path(), "memory") && !has_controller(root.path(), "mem"));
    }

    #[test]
    fn a_kernel_that_was_started_without_pressure_says_so() {
        assert_eq!(pressure(Ok("some total=0".into())), Pressure::Kept);
        assert_eq!(pressure(Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP))), Pressure::Off);
        assert_eq!(pressure(Err(io::Error::from_raw_os_error(libc::ENOENT))), Pressure::Absent);
    }
}
