//! Calls that are refused before or after they have reached the VFS.

use std::ffi::{CStr, CString};

use super::calls::{self, close, fails, open, worked};
use super::counts::{Count, Counts, calls as times, failed};
use super::support::attach_modes::watchers;
use super::support::figure;
use super::support::storage::{Kind, Storage};
use super::{ROOM, assert_nothing_lost, assert_same, watch};

/// The expected counts of [`after_it`].
const AFTER_IT: Counts = Counts {
    read: failed(3),
    write: failed(3),
    fsync: times(0),
    open: Count { calls: 6, errors: 4 },
    create: Count { calls: 2, errors: 1 },
    ..Counts::NONE
};

/// Calls that every attach mode sees.
fn after_it(name: &CStr, directory: &CStr) {
    let mut bytes = [0_u8; 8];
    let buffer = bytes.as_mut_ptr().cast::<libc::c_void>();
    let iovec = libc::iovec { iov_base: buffer, iov_len: bytes.len() };
    let exclusive = libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY;
    close(open(name, exclusive));
    // SAFETY: names, descriptors and memory that live.
    unsafe {
        // It creates nothing, so it counts as a failed open.
        fails(libc::open(name.as_ptr(), exclusive, 0o600).into(), libc::EEXIST);
        fails(libc::open(name.as_ptr(), libc::O_DIRECTORY | libc::O_RDONLY).into(), libc::ENOTDIR);
        fails(libc::open(directory.as_ptr(), libc::O_WRONLY).into(), libc::EISDIR);
        fails(libc::symlink(name.as_ptr(), name.as_ptr()).into(), libc::EEXIST);
        let mut long = [b'n'; 300];
        long[299] = 0;
        fails(libc::open(long.as_ptr().cast(), libc::O_RDONLY).into(), libc::ENAMETOOLONG);
        let written = open(name, libc::O_WRONLY);
        fails(libc::read(written, buffer, 8) as _, libc::EBADF);
        fails(libc::pread(written, buffer, 8, 0) as _, libc::EBADF);
        fails(libc::readv(written, &raw const iovec, 1) as _, libc::EBADF);
        close(written);
        let read = open(name, libc::O_RDONLY);
        fails(libc::write(read, buffer, 8) as _, libc::EBADF);
        fails(libc::pwrite(read, buffer, 8, 0) as _, libc::EBADF);
        fails(libc::writev(read, &raw const iovec, 1) as _, libc::EBADF);
        close(read);
    }
}

/// The expected counts of [`before_it`] in attach modes that see system calls: a read, a write, and opens
/// without a free descriptor, with a name longer than a page and with invalid flags.
const BEFORE_IT: Counts =
    Counts { read: failed(1), write: failed(1), open: Count { calls: 4, errors: 3 }, ..Counts::NONE };

/// `absent` is not a file, so no attach mode counts its read and its write as storage operations.
fn before_it(name: &CStr, long: &CStr) {
    let mut bytes = [0_u8; 8];
    let buffer = bytes.as_mut_ptr().cast::<libc::c_void>();
    let absent = 9999;
    let file = open(name, libc::O_RDWR);
    // SAFETY: names, descriptors and memory that live.
    unsafe {
        fails(libc::read(absent, buffer, 8) as _, libc::EBADF);
        fails(libc::write(absent, buffer, 8) as _, libc::EBADF);
        fails(libc::fdatasync(absent).into(), libc::EBADF);
        fails(libc::pread(file, buffer, 8, -1) as _, libc::EINVAL);
        fails(libc::pwrite(file, buffer, 8, -1) as _, libc::EINVAL);
        fails(libc::open(long.as_ptr(), libc::O_RDONLY).into(), libc::ENAMETOOLONG);
        // A file without a name must be writable.
        fails(libc::open(name.as_ptr(), libc::O_TMPFILE | libc::O_RDONLY).into(), libc::EINVAL);
        let none_left = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        worked(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const none_left).into());
        fails(libc::open(name.as_ptr(), libc::O_RDONLY).into(), libc::EMFILE);
    }
    close(file);
}

#[test]
fn what_the_vfs_refuses_is_an_error_in_every_attach_mode() {
    let watchers = watchers("vfs");
    for kind in Kind::ALL {
        let storage = Storage::of(kind, ROOM);
        let (name, directory) = (calls::path(&storage.path().join("file")), calls::path(storage.path()));
        let what = format!("refused-{}", kind.name());
        let seen = watch(&watchers, &what, || after_it(&name, &directory));
        assert_same(&what, &seen, &AFTER_IT);
    }
    assert_nothing_lost(&watchers);
}

#[test]
fn what_is_refused_before_the_vfs_is_an_error_of_system_calls_only() {
    let watchers = watchers("vfs");
    let storage = Storage::of(Kind::Ext4, ROOM);
    let file = storage.path().join("file");
    std::fs::write(&file, "").expect("a file");
    let long = CString::new(vec![b'n'; 5000]).expect("no NUL");
    let seen = watch(&watchers, "before", || before_it(&calls::path(&file), &long));
    for (watcher, counts) in seen {
        let name = watcher.mode.name();
        figure(&format!("refused before the VFS by {name}: {counts:?}"));
        let expected = if watcher.mode.hooks_functions() {
            Counts { open: times(1), ..Counts::NONE }
        } else {
            BEFORE_IT
        };
        assert_eq!(counts, expected, "{name}");
    }
    assert_nothing_lost(&watchers);
}
