//! Cgroups as the file system shows them: where the hierarchies are mounted, which cgroups exist, and their
//! names.
//!
//! A cgroup is identified by its id (the inode number of its directory) and by its path from the hierarchy's
//! root, which begins with `/`. Modules are in reading order.

use std::io;

pub mod mounts;
pub mod name;
pub mod walk;
// The contents of a cgroup's files.
pub(crate) mod files;
pub mod parse;
// Changes: the kernel's events, and the cgroups known so far.
pub mod event;
pub mod tree;

/// Whether the kernel answers this for a removed cgroup: `ENOENT` for its path, `ENODEV` for a file of it
/// that was opened before.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENODEV))
}
