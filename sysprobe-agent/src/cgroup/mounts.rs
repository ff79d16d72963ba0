//! Where the cgroup hierarchies are mounted, from `/proc/self/mountinfo`, and which of them identifies tasks.
//!
//! Pure: the caller reads the file. This module does not know whether a hierarchy can be read, or whether its
//! root is the machine's or only that of a cgroup namespace.

use std::cmp::Reverse;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The cgroup mounts of one mount namespace, one per hierarchy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mounts {
    pub v2: Option<Mount>,
    pub v1: Vec<V1Mount>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    pub point: PathBuf,
    /// The cgroup at the mount point, relative to the reader's cgroup namespace. `/` is the namespace's root,
    /// and `/../..` lies above it. Any other root shows only a part of the hierarchy.
    pub root: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct V1Mount {
    pub mount: Mount,
    pub controllers: Vec<String>,
    /// `systemd` for the hierarchy without controllers in which systemd keeps its units.
    pub name: Option<String>,
}

/// The hierarchy in which a task's cgroup identifies its workload.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyHierarchy {
    /// cgroup v2.
    V2 {
        /// Directory where the hierarchy is mounted.
        root: PathBuf,
    },
    /// cgroup v1.
    V1 {
        /// Directory where the `cpu` controller is mounted.
        root: PathBuf,
        /// Directory where the `cpuacct` controller is mounted, on most hosts the same as `root`. `None` if
        /// it is not mounted.
        cpuacct: Option<PathBuf>,
        /// Directory where the `memory` controller is mounted, nearly always a hierarchy of its own. `None`
        /// if it is not mounted. Container runtimes give a cgroup the same path in all hierarchies.
        memory: Option<PathBuf>,
    },
}

/// One line of mountinfo.
struct Entry<'a> {
    id: &'a str,
    parent: &'a str,
    mount: Mount,
    file_system: &'a str,
    super_options: &'a str,
}

// === impl Mounts ===

impl Mounts {
    /// Skips lines that are not in mountinfo's format.
    #[must_use]
    pub fn parse(mountinfo: &str) -> Self {
        Self::under(mountinfo, Path::new("/"))
    }

    /// Takes only mounts at `directory` or below it, where the host's cgroups are bind-mounted into a
    /// container.
    #[must_use]
    pub fn under(mountinfo: &str, directory: &Path) -> Self {
        let entries: Vec<Entry> = mountinfo.lines().filter_map(Entry::parse).collect();
        let mut mounts = Self::default();
        for entry in &entries {
            if !entry.mount.point.starts_with(directory) || entry.is_covered(&entries) {
                continue;
            }
            match entry.file_system {
                "cgroup2" => mounts.add_v2(&entry.mount),
                "cgroup" => mounts.add_v1(&entry.mount, entry.super_options),
                _ => {}
            }
        }
        mounts
    }

    /// The v1 `cpu` hierarchy if there is one, else v2. With a v1 `cpu` hierarchy, the v2 tree (if mounted at
    /// all) has neither the containers of a cgroupfs driver nor CPU files.
    #[must_use]
    pub fn key(&self) -> Option<KeyHierarchy> {
        let Some(cpu) = self.controller("cpu") else {
            return self.v2.as_ref().map(|v2| KeyHierarchy::V2 { root: v2.point.clone() });
        };
        let point = |controller| self.controller(controller).map(|mount| mount.point.clone());
        let (cpuacct, memory) = (point("cpuacct"), point("memory"));
        Some(KeyHierarchy::V1 { root: cpu.point.clone(), cpuacct, memory })
    }

    /// The mount behind `key`; its `root` says whether the whole hierarchy is visible.
    #[must_use]
    pub fn key_mount(&self) -> Option<&Mount> {
        self.controller("cpu").or(self.v2.as_ref())
    }

    fn controller(&self, name: &str) -> Option<&Mount> {
        self.v1.iter().find(|v1| v1.controllers.iter().any(|has| has == name)).map(|v1| &v1.mount)
    }

    fn add_v2(&mut self, mount: &Mount) {
        match &mut self.v2 {
            Some(known) => known.replace_if_better(mount),
            None => self.v2 = Some(mount.clone()),
        }
    }

    fn add_v1(&mut self, mount: &Mount, super_options: &str) {
        let (controllers, name) = v1_options(super_options);
        match self.v1.iter_mut().find(|v1| v1.controllers == controllers && v1.name == name) {
            Some(known) => known.mount.replace_if_better(mount),
            None => self.v1.push(V1Mount { mount: mount.clone(), controllers, name }),
        }
    }
}

// === impl Mount ===

impl Mount {
    /// How many levels above the namespace's root the mount begins; `None` if it begins at another branch.
    fn levels_up(&self) -> Option<usize> {
        let mut parts = self.root.split('/').filter(|part| !part.is_empty());
        parts.try_fold(0, |levels, part| (part == "..").then_some(levels + 1))
    }

    /// Prefers the mount that shows more, then the shorter path. In a container with its own cgroup
    /// namespace, the host's hierarchy has the root `/../..`, and `/` is only the container's own part of it.
    fn replace_if_better(&mut self, other: &Self) {
        let rank = |mount: &Self| (Reverse(mount.levels_up()), mount.point.as_os_str().len());
        if rank(other) < rank(self) {
            self.clone_from(other);
        }
    }
}

// === impl KeyHierarchy ===

impl KeyHierarchy {
    /// The directory of the root cgroup.
    #[must_use]
    pub fn root(&self) -> &Path {
        match self {
            Self::V2 { root } | Self::V1 { root, .. } => root,
        }
    }
}

// === impl Entry ===

impl<'a> Entry<'a> {
    /// `36 35 98:0 /root /point rw,noatime shared:1 master:2 - cgroup2 source rw`: blanks in names are
    /// escaped, and the number of optional fields before the ` - ` varies.
    fn parse(line: &'a str) -> Option<Self> {
        let (mount, file_system) = line.split_once(" - ")?;
        let mut mount = mount.split(' ');
        let (id, parent) = (mount.next()?, mount.next()?);
        let (root, point) = (mount.nth(1)?, mount.next()?);
        let mut file_system = file_system.split(' ');
        Some(Self {
            id,
            parent,
            mount: Mount {
                point: unescape(point).into(),
                root: unescape(root).to_string_lossy().into_owned(),
            },
            file_system: file_system.next()?,
            super_options: file_system.nth(1)?,
        })
    }

    /// Whether another mount lies on top: then this one is listed, but its path leads to the other.
    fn is_covered(&self, all: &[Self]) -> bool {
        all.iter().any(|other| other.parent == self.id && other.mount.point == self.mount.point)
    }
}

/// The controllers and the name among the options of a v1 superblock. Nothing marks an option as a
/// controller, so all known flags are dropped.
fn v1_options(options: &str) -> (Vec<String>, Option<String>) {
    const FLAGS: [&str; 8] =
        ["rw", "ro", "seclabel", "xattr", "noprefix", "clone_children", "cpuset_v2_mode", "favordynmods"];
    let name = options.split(',').find_map(|option| option.strip_prefix("name="));
    let name = name.map(|name| unescape(name).to_string_lossy().into_owned());
    // Drops `release_agent=/path` and the pieces of an SELinux `context="u:r:t:s0:c1,c2"`.
    let is_word = |option: &str| option.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    let controllers = options.split(',').filter(|option| is_word(option) && !FLAGS.contains(option));
    (controllers.map(ToOwned::to_owned).collect(), name)
}

/// Undoes the kernel's `\040`. Anything that is not an escape stays as it is.
fn unescape(field: &str) -> OsString {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field.as_bytes();
    while let Some((byte, tail)) = rest.split_first() {
        rest = tail;
        match tail {
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..] if *byte == b'\\' => {
                bytes.push(((a - b'0') << 6) | ((b - b'0') << 3) | (c - b'0'));
                rest = after;
            }
            _ => bytes.push(*byte),
        }
    }
    OsString::from_vec(bytes)
}

#[cfg(test)]
mod tests;
