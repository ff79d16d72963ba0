//! Lists the cgroups of a hierarchy: once at start, and whenever events were lost.
//!
//! Cgroups come and go during the walk. The kernel's events report those that are created behind it, and one
//! that vanishes is no error. The walk blocks. It does not recurse, because containers decide how deep the
//! tree is and how long its paths are.

use std::fs::{self, DirEntry, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Context, Result};

use crate::cgroup::is_gone;

/// A cgroup that existed when the walk reached it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The inode number of the directory, which is the kernel's id of the cgroup (`kn->id`, Linux 5.5).
    pub id: u64,
    /// The id of its parent; 0 for the root.
    pub parent: u64,
    /// Its name in its parent; empty for the root.
    pub name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Walk {
    /// The root first, then in no particular order, except that parents come before their children.
    pub found: Vec<Found>,
    /// Cgroups whose children could not be listed.
    pub unreadable: usize,
}

/// A directory with a longer path is opened, and those below it are reached from its descriptor. The kernel
/// accepts 4096 bytes, and a thousand directories may be pending.
const STEP: usize = 512;

/// A directory whose children are still to be listed.
struct Pending {
    id: u64,
    directory: PathBuf,
    /// Keeps open the directory that the path starts from: the path is valid only while it is open.
    from: Option<Rc<File>>,
}

/// Fails only if the root itself cannot be read.
pub fn walk(root: &Path) -> Result<Walk> {
    let context = || format!("listing the cgroups in `{}`", root.display());
    let metadata = fs::metadata(root).with_context(context)?;
    let found = Found { id: metadata.ino(), parent: 0, name: String::new() };
    let mut walk = Walk { found: vec![found], unreadable: 0 };
    let mut pending = Vec::new();
    let start = Pending { id: metadata.ino(), directory: root.to_owned(), from: None };
    walk.list(start, metadata.dev(), &mut pending).with_context(context)?;
    while let Some(next) = pending.pop() {
        match walk.list(next, metadata.dev(), &mut pending) {
            Err(error) if !is_gone(&error) => walk.unreadable += 1,
            _ => {}
        }
    }
    Ok(walk)
}

impl Walk {
    fn list(&mut self, parent: Pending, device: u64, pending: &mut Vec<Pending>) -> io::Result<()> {
        let parent = parent.shortened()?;
        for entry in fs::read_dir(&parent.directory)? {
            let entry = entry?;
            // The listing includes the type, so the dozens of files of a cgroup cost no system call.
            if !entry.file_type().is_ok_and(|file_type| file_type.is_dir()) {
                continue;
            }
            let name = entry.file_name().to_string_lossy().into_owned();
            self.found.push(Found { id: entry.ino(), parent: parent.id, name });
            if may_have_children(&entry, device) {
                pending.push(Pending { id: entry.ino(), directory: entry.path(), from: parent.from.clone() });
            }
        }
        Ok(())
    }
}

impl Pending {
    fn shortened(self) -> io::Result<Self> {
        if self.directory.as_os_str().len() <= STEP {
            return Ok(self);
        }
        let opened = File::open(&self.directory)?;
        let directory = PathBuf::from(format!("/proc/self/fd/{}", opened.as_raw_fd()));
        Ok(Self { directory, from: Some(Rc::new(opened)), ..self })
    }
}

/// False if another hierarchy is mounted there (some mount a v1 controller inside the v2 tree). Also false
/// for the many leaf cgroups, by their link count: a directory has one link per subdirectory and two more.
/// (File systems that do not count them say 1.)
fn may_have_children(entry: &DirEntry, device: u64) -> bool {
    entry.metadata().ok().is_none_or(|metadata| metadata.dev() == device && metadata.nlink() != 2)
}

#[cfg(test)]
mod tests;
