//! Whether a file is storage: a regular file, directory or block device that is not on a pseudo file system.
//! This takes four reads, all of memory that the call itself uses.
//!
//! In a descriptor table the verifier loses a file's type. Since 6.2 a cast restores it: the five reads from
//! there to the magic number are then loads, instead of helper calls.

use sysprobe_common::vfs::pseudo;
use sysprobe_ebpf::globals;
use sysprobe_ebpf::kernel::{Address, Object, Typed, read_u64_at};

globals!(
    OFF_DENTRY_SB,
    OFF_FDTABLE_FD,
    OFF_FDTABLE_MAX,
    OFF_FILES_TABLE,
    OFF_FILE_INODE,
    OFF_FILE_MODE,
    OFF_FS_WORKING,
    OFF_INODE_MODE,
    OFF_INODE_SB,
    OFF_SB_MAGIC,
    OFF_TASK_FILES,
    OFF_TASK_FS,
);

/// `FMODE_CREATED` of include/linux/fs.h, since 4.19.
const CREATED: u32 = 0x0010_0000;

/// The kinds of include/uapi/linux/stat.h.
const KIND: u16 = 0o170_000;
const DIRECTORY: u16 = 0o040_000;
const BLOCK_DEVICE: u16 = 0o060_000;
const REGULAR: u16 = 0o100_000;

#[inline(always)]
pub(crate) fn is_storage<T: Object>(file: T) -> bool {
    let Some(inode) = file.follow(&OFF_FILE_INODE) else { return false };
    let kind = inode.u16(&OFF_INODE_MODE).unwrap_or(0) & KIND;
    if kind != REGULAR && kind != DIRECTORY && kind != BLOCK_DEVICE {
        return false;
    }
    inode.follow(&OFF_INODE_SB).is_some_and(holds_storage)
}

/// Whether an open created the file.
#[inline(always)]
pub(crate) fn was_created(file: impl Object) -> bool {
    file.u32(&OFF_FILE_MODE).unwrap_or(0) & CREATED != 0
}

/// An open file: a typed object where a cast is possible, or an address.
pub(crate) enum Opened {
    Typed(Typed),
    Untyped(Address),
}

/// The open file of a descriptor.
#[inline(always)]
pub(crate) fn of_descriptor<T: Object>(task: T, descriptor: u32) -> Option<Opened> {
    let table = task.follow(&OFF_TASK_FILES)?.follow(&OFF_FILES_TABLE)?;
    if descriptor >= table.u32(&OFF_FDTABLE_MAX)? {
        return None;
    }
    let place = table.u64(&OFF_FDTABLE_FD)? + 8 * u64::from(descriptor);
    // If there is no file, all members read as zero.
    if let Some(file) = T::cast_file(place) {
        return Some(Opened::Typed(file));
    }
    let file = read_u64_at(place)?;
    (file != 0).then_some(Opened::Untyped(Address(file)))
}

/// Whether the open file of a descriptor is storage.
#[inline(always)]
pub(crate) fn is_storage_at(task: impl Object, descriptor: u32) -> bool {
    match of_descriptor(task, descriptor) {
        Some(Opened::Typed(file)) => is_storage(file),
        Some(Opened::Untyped(file)) => is_storage(file),
        None => false,
    }
}

/// Whether the task's working directory is on storage.
#[inline(always)]
pub(crate) fn works_in_storage<T: Object>(task: T) -> bool {
    let directory = task.follow(&OFF_TASK_FS).and_then(|fs| fs.follow(&OFF_FS_WORKING));
    directory.and_then(|directory| directory.follow(&OFF_DENTRY_SB)).is_some_and(holds_storage)
}

#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "magic numbers have 32 bits")]
fn holds_storage(super_block: impl Object) -> bool {
    super_block.u64(&OFF_SB_MAGIC).is_some_and(|magic| !pseudo::is_pseudo(magic as u32))
}
