//! Cgroups as the file system shows them: where the hierarchies are mounted, which cgroups exist, what each
//! is called.
//!
//! A cgroup is known by its id (the inode number of its
//! directory) and its path from the hierarchy's root, which begins with `/`. Modules in reading order.

use std::io;

pub mod mounts;
pub mod name;
pub mod walk;
// What a cgroup's files say.
pub(crate) mod files;
pub mod parse;
// What changes: the kernel's events, and the cgroups known by now.
pub mod events;
pub mod tree;

/// Whether this is how the kernel answers for a cgroup that was removed: `ENOENT` for its path, `ENODEV` for
/// a file of it that was opened before.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENODEV))
}
