//! The effects of system calls on storage.

use sysprobe_common::vfs::Operation::{self, Create, Fsync, Open, Read, Unlink, Write};
use sysprobe_common::vfs::syscall::Syscall;
#[cfg(target_arch = "x86_64")]
use sysprobe_common::vfs::syscall::WORKING;

const fn file(operation: Operation) -> Syscall {
    Syscall::File { operations: operation.bit(), descriptor: 0 }
}

const fn name(operation: Operation, directory: u32, name: u32) -> Syscall {
    Syscall::Name { operations: operation.bit(), directory, name }
}

/// The system calls by their numbers on this architecture.
pub(super) fn table() -> impl Iterator<Item = (u32, Syscall)> {
    EVERYWHERE.iter().chain(OLDER).filter_map(|(number, call)| Some((u32::try_from(*number).ok()?, *call)))
}

/// Calls with the same arguments on every architecture.
const EVERYWHERE: &[(libc::c_long, Syscall)] = &[
    (libc::SYS_read, file(Read)),
    (libc::SYS_pread64, file(Read)),
    (libc::SYS_readv, file(Read)),
    (libc::SYS_preadv, file(Read)),
    (libc::SYS_preadv2, file(Read)),
    (libc::SYS_write, file(Write)),
    (libc::SYS_pwrite64, file(Write)),
    (libc::SYS_writev, file(Write)),
    (libc::SYS_pwritev, file(Write)),
    (libc::SYS_pwritev2, file(Write)),
    (libc::SYS_sendfile, Syscall::Transfer { from: 1, to: 0 }),
    (libc::SYS_splice, Syscall::Transfer { from: 0, to: 2 }),
    (libc::SYS_copy_file_range, Syscall::Transfer { from: 0, to: 2 }),
    (libc::SYS_fsync, file(Fsync)),
    (libc::SYS_fdatasync, file(Fsync)),
    (libc::SYS_sync_file_range, file(Fsync)),
    (libc::SYS_msync, Syscall::Memory { operations: Fsync.bit() }),
    (libc::SYS_openat, name(Open, 0, 1)),
    (libc::SYS_openat2, name(Open, 0, 1)),
    (libc::SYS_mkdirat, name(Create, 0, 1)),
    (libc::SYS_mknodat, name(Create, 0, 1)),
    (libc::SYS_linkat, name(Create, 2, 3)),
    (libc::SYS_symlinkat, name(Create, 1, 2)),
    (libc::SYS_renameat2, name(Create, 2, 3)),
    (libc::SYS_unlinkat, name(Unlink, 0, 1)),
];

/// Calls that newer architectures do not have.
#[cfg(target_arch = "x86_64")]
const OLDER: &[(libc::c_long, Syscall)] = &[
    (libc::SYS_open, name(Open, WORKING, 0)),
    (libc::SYS_creat, name(Open, WORKING, 0)),
    (libc::SYS_mkdir, name(Create, WORKING, 0)),
    (libc::SYS_mknod, name(Create, WORKING, 0)),
    (libc::SYS_link, name(Create, WORKING, 1)),
    (libc::SYS_symlink, name(Create, WORKING, 1)),
    (libc::SYS_rename, name(Create, WORKING, 1)),
    (libc::SYS_renameat, name(Create, 2, 3)),
    (libc::SYS_unlink, name(Unlink, WORKING, 0)),
    (libc::SYS_rmdir, name(Unlink, WORKING, 0)),
];

#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[(libc::c_long, Syscall)] = &[(libc::SYS_renameat, name(Create, 2, 3))];

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use sysprobe_common::vfs::syscall::TABLE;

    use super::*;

    #[test]
    fn every_call_has_a_place_of_its_own_in_the_table() {
        let mut seen = HashSet::new();
        for (number, call) in table() {
            assert!((number as usize) < TABLE, "{number}");
            assert!(seen.insert(number), "{number} twice");
            assert_ne!(call.encode(), 0, "{number}");
        }
    }
}
