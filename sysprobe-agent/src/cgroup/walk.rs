//! Lists the cgroups of a hierarchy: once at start, and whenever events were lost.
//!
//! Cgroups come and go during the walk: what is made behind its back is the business of the kernel's events, and what
//! vanishes is no error. Blocking, and no recursion: containers decide how deep the tree is.

use std::fs::{self, DirEntry};
use std::io;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::cgroup::is_gone;

/// A cgroup that existed when the walk passed by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The inode number of the directory, which is the kernel's id of the cgroup (`kn->id`, Linux 5.5).
    pub id: u64,
    /// From the hierarchy's root, which itself is `/`.
    pub path: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Walk {
    /// The root first, then in no particular order, except that parents come before their children.
    pub found: Vec<Found>,
    /// Cgroups whose children could not be listed, for instance below a path that is too long for the system.
    pub unreadable: usize,
}

/// A directory whose children are still to be listed.
struct Pending {
    directory: PathBuf,
    path: String,
}

/// Fails only if the root itself cannot be read.
pub fn walk(root: &Path) -> Result<Walk> {
    let context = || format!("listing the cgroups in `{}`", root.display());
    let metadata = fs::metadata(root).with_context(context)?;
    let mut walk = Walk { found: vec![Found { id: metadata.ino(), path: "/".to_owned() }], unreadable: 0 };
    let mut pending = Vec::new();
    let start = Pending { directory: root.to_owned(), path: String::new() };
    walk.list(&start, metadata.dev(), &mut pending).with_context(context)?;
    while let Some(next) = pending.pop() {
        match walk.list(&next, metadata.dev(), &mut pending) {
            Err(error) if !is_gone(&error) => walk.unreadable += 1,
            _ => {}
        }
    }
    Ok(walk)
}

impl Walk {
    fn list(&mut self, parent: &Pending, device: u64, pending: &mut Vec<Pending>) -> io::Result<()> {
        for entry in fs::read_dir(&parent.directory)? {
            let entry = entry?;
            // The type comes with the listing: the dozens of files of a cgroup cost no system call.
            if !entry.file_type().is_ok_and(|file_type| file_type.is_dir()) {
                continue;
            }
            let path = format!("{}/{}", parent.path, entry.file_name().to_string_lossy());
            self.found.push(Found { id: entry.ino(), path: path.clone() });
            if may_have_children(&entry, device) {
                pending.push(Pending { directory: entry.path(), path });
            }
        }
        Ok(())
    }
}

/// False where another hierarchy is mounted (some mount a v1 controller inside the v2 tree), and for the many cgroups
/// that are leaves, by their link count: a directory has one link per subdirectory and two more. (File systems that do
/// not count them say 1.)
fn may_have_children(entry: &DirEntry, device: u64) -> bool {
    entry.metadata().ok().is_none_or(|metadata| metadata.dev() == device && metadata.nlink() != 2)
}

#[cfg(test)]
mod tests;
