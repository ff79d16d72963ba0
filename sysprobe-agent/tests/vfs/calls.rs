//! Loads of known calls, made of bare system calls because they run in a fork of the test. Each load has a
//! constant with its expected counts.

use std::ffi::{CStr, CString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{null, null_mut};
use std::thread;

use super::counts::{Count, Counts, calls, failed};

/// File names, created before the fork.
pub(crate) struct Files {
    one: CString,
    other: CString,
    third: CString,
    directory: CString,
    absent: CString,
    below_absent: CString,
    endless: CString,
}

pub(crate) fn path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).expect("no NUL in a path")
}

impl Files {
    pub(crate) fn in_directory(directory: &Path) -> Self {
        let name = |name: &str| path(&directory.join(name));
        Self {
            one: name("one"),
            other: name("other"),
            third: name("third"),
            directory: name("directory"),
            absent: name("absent"),
            below_absent: name("absent/file"),
            endless: name("endless"),
        }
    }
}

/// Ends the child if a call failed: the exit code is its only way to report that.
pub(crate) fn worked(result: libc::c_long) -> libc::c_long {
    if result < 0 {
        // SAFETY: ends the child.
        unsafe { libc::_exit(2) }
    }
    result
}

pub(crate) fn fails(result: libc::c_long, errno: i32) {
    if result >= 0 || io::Error::last_os_error().raw_os_error() != Some(errno) {
        // SAFETY: ends the child.
        unsafe { libc::_exit(3) }
    }
}

pub(crate) fn open(name: &CStr, flags: i32) -> i32 {
    // SAFETY: a name that lives.
    let file = unsafe { libc::open(name.as_ptr(), flags, 0o600) };
    worked(file.into());
    file
}

pub(crate) fn close(file: i32) {
    // SAFETY: a descriptor of this function's caller.
    worked(unsafe { libc::close(file) }.into());
}

const BLOCK: usize = 1000;
const ALL: [u8; BLOCK] = [b'x'; BLOCK];

fn vectors(bytes: &mut [u8; BLOCK]) -> [libc::iovec; 2] {
    let start = bytes.as_mut_ptr();
    // SAFETY: within the array.
    let middle = unsafe { start.add(BLOCK / 2) };
    [start, middle].map(|part| libc::iovec { iov_base: part.cast(), iov_len: BLOCK / 2 })
}

/// The expected counts of [`every_way`].
pub(crate) const EVERY_WAY: Counts = Counts {
    read: calls(9),
    write: calls(10),
    fsync: calls(3),
    open: calls(2),
    create: calls(7),
    unlink: calls(6),
    bytes_read: 9 * BLOCK as u64 - 1000,
    bytes_written: 10 * BLOCK as u64,
};

/// Uses every system call that exists for each operation.
pub(crate) fn every_way(files: &Files) {
    write_and_read(files);
    transfer(files);
    synchronise(files);
    names(files);
}

/// Two creates, five writes, and six reads, the last of which is at the end of the file.
fn write_and_read(files: &Files) {
    let mut bytes = ALL;
    let file = open(&files.one, libc::O_CREAT | libc::O_RDWR);
    // SAFETY: descriptors and buffers that live, here and below.
    unsafe {
        worked(libc::write(file, bytes.as_ptr().cast(), BLOCK) as _);
        worked(libc::pwrite(file, bytes.as_ptr().cast(), BLOCK, 1000) as _);
        worked(libc::writev(file, vectors(&mut bytes).as_ptr(), 2) as _);
        worked(libc::pwritev(file, vectors(&mut bytes).as_ptr(), 2, 3000) as _);
        worked(libc::pwritev2(file, vectors(&mut bytes).as_ptr(), 2, 4000, 0) as _);
        worked(libc::pread(file, bytes.as_mut_ptr().cast(), BLOCK, 1000) as _);
        worked(libc::lseek(file, 0, libc::SEEK_SET));
        worked(libc::read(file, bytes.as_mut_ptr().cast(), BLOCK) as _);
        worked(libc::readv(file, vectors(&mut bytes).as_ptr(), 2) as _);
        worked(libc::preadv(file, vectors(&mut bytes).as_ptr(), 2, 0) as _);
        worked(libc::preadv2(file, vectors(&mut bytes).as_ptr(), 2, 0, 0) as _);
        worked(libc::pread(file, bytes.as_mut_ptr().cast(), BLOCK, 1 << 20) as _);
    }
    close(file);
    close(open(&files.other, libc::O_CREAT | libc::O_WRONLY));
}

/// One open for reading and one for writing; transfers count as three reads and three writes, and one more
/// write comes from a pipe.
fn transfer(files: &Files) {
    let (from, to) = (open(&files.one, libc::O_RDONLY), open(&files.other, libc::O_WRONLY));
    let mut pipe = [0; 2];
    // SAFETY: descriptors that live; null for no offset.
    unsafe {
        worked(libc::sendfile(to, from, null_mut(), BLOCK) as _);
        worked(libc::copy_file_range(from, null_mut(), to, null_mut(), BLOCK, 0) as _);
        worked(libc::pipe(pipe.as_mut_ptr()).into());
        worked(libc::splice(from, null_mut(), pipe[1], null_mut(), BLOCK, 0) as _);
        worked(libc::splice(pipe[0], null_mut(), to, null_mut(), BLOCK, 0) as _);
    }
    pipe.into_iter().for_each(close);
    close(from);
    close(to);
}

/// One create, two writes, and three syncs. One of the writes waits for the device, but is still one call.
fn synchronise(files: &Files) {
    let file = open(&files.third, libc::O_CREAT | libc::O_RDWR);
    // SAFETY: a descriptor, a buffer and a mapping that live.
    unsafe {
        worked(libc::write(file, ALL.as_ptr().cast(), BLOCK) as _);
        worked(libc::fsync(file).into());
        worked(libc::fdatasync(file).into());
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        let mapped = libc::mmap(null_mut(), BLOCK, protection, flags, file, 0);
        worked(if mapped == libc::MAP_FAILED { -1 } else { 0 });
        worked(libc::msync(mapped, BLOCK, libc::MS_SYNC).into());
        worked(libc::munmap(mapped, BLOCK).into());
        let iovec = libc::iovec { iov_base: ALL.as_ptr().cast_mut().cast(), iov_len: BLOCK };
        worked(libc::pwritev2(file, &raw const iovec, 1, 0, libc::RWF_SYNC) as _);
    }
    close(file);
}

/// One create, one sync.
pub(crate) fn synchronise_range(files: &Files) {
    let file = open(&files.one, libc::O_CREAT | libc::O_RDWR);
    // SAFETY: plain values.
    worked(unsafe { libc::sync_file_range(file, 0, 0, libc::SYNC_FILE_RANGE_WRITE) }.into());
    close(file);
}

/// Four creates and six unlinks.
fn names(files: &Files) {
    // SAFETY: names that live.
    unsafe {
        worked(libc::mkdir(files.directory.as_ptr(), 0o700).into());
        worked(libc::rmdir(files.directory.as_ptr()).into());
        worked(libc::link(files.one.as_ptr(), files.absent.as_ptr()).into());
        worked(libc::unlink(files.absent.as_ptr()).into());
        worked(libc::symlink(files.one.as_ptr(), files.absent.as_ptr()).into());
        worked(libc::unlink(files.absent.as_ptr()).into());
        worked(libc::rename(files.one.as_ptr(), files.absent.as_ptr()).into());
        for name in [&files.absent, &files.other, &files.third] {
            worked(libc::unlink(name.as_ptr()).into());
        }
    }
}

/// The expected counts of [`failures`].
pub(crate) const FAILURES: Counts = Counts {
    read: failed(2),
    write: Count { calls: 5, errors: 1 },
    fsync: calls(0),
    open: Count { calls: 3, errors: 2 },
    create: Count { calls: 3, errors: 1 },
    unlink: Count { calls: 4, errors: 2 },
    bytes_read: 0,
    bytes_written: 4 * 4096,
};

/// Runs on a file system of four pages.
pub(crate) fn failures(files: &Files) {
    let block = [b'y'; 4096];
    let file = open(&files.one, libc::O_CREAT | libc::O_WRONLY);
    // SAFETY: names, descriptors and buffers that live.
    unsafe {
        for _ in 0..4 {
            worked(libc::write(file, block.as_ptr().cast(), block.len()) as _);
        }
        fails(libc::write(file, block.as_ptr().cast(), block.len()) as _, libc::ENOSPC);
        // Not opened for reading.
        fails(libc::read(file, null_mut(), 10) as _, libc::EBADF);
        // An invalid descriptor: the call never reaches a file.
        fails(libc::read(9999, null_mut(), 10) as _, libc::EBADF);
        fails(libc::fsync(9999).into(), libc::EBADF);
        fails(libc::open(files.absent.as_ptr(), libc::O_RDONLY).into(), libc::ENOENT);
        fails(libc::open(files.below_absent.as_ptr(), libc::O_CREAT | libc::O_WRONLY).into(), libc::ENOENT);
        fails(libc::open(null(), libc::O_RDONLY).into(), libc::EFAULT);
        worked(libc::mkdir(files.directory.as_ptr(), 0o700).into());
        fails(libc::mkdir(files.directory.as_ptr(), 0o700).into(), libc::EEXIST);
        let directory = open(&files.directory, libc::O_RDONLY);
        let mut byte = [0];
        fails(libc::read(directory, byte.as_mut_ptr().cast(), 1) as _, libc::EISDIR);
        close(directory);
        fails(libc::unlink(files.absent.as_ptr()).into(), libc::ENOENT);
        fails(libc::unlink(files.directory.as_ptr()).into(), libc::EISDIR);
        worked(libc::rmdir(files.directory.as_ptr()).into());
        worked(libc::unlink(files.one.as_ptr()).into());
    }
    close(file);
}

/// Everything that looks like a file but is not storage. `directory` is a cgroup to create.
pub(crate) fn no_storage(directory: &CStr) {
    let mut bytes = [0; 64];
    let mut pair = [0; 2];
    let (buffer, length) = (bytes.as_mut_ptr().cast::<libc::c_void>(), bytes.len());
    // SAFETY: names, descriptors and buffers that live.
    unsafe {
        worked(libc::pipe(pair.as_mut_ptr()).into());
        worked(libc::write(pair[1], buffer, length) as _);
        worked(libc::read(pair[0], buffer, length) as _);
        pair.into_iter().for_each(close);
        worked(libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM, 0, pair.as_mut_ptr()).into());
        worked(libc::write(pair[1], buffer, length) as _);
        worked(libc::read(pair[0], buffer, length) as _);
        fails(libc::fsync(pair[0]).into(), libc::EINVAL);
        pair.into_iter().for_each(close);
        let event = libc::eventfd(1, 0);
        worked(libc::read(event, buffer, 8) as _);
        close(event);
        for name in [c"/proc/self/stat", c"/sys/kernel/mm/transparent_hugepage/enabled", c"/dev/zero"] {
            let file = libc::open(name.as_ptr(), libc::O_RDONLY);
            if file >= 0 {
                worked(libc::read(file, buffer, length) as _);
                close(file);
            }
        }
        let null = open(c"/dev/null", libc::O_WRONLY);
        worked(libc::write(null, buffer, length) as _);
        close(null);
        fails(libc::open(c"/proc/nothing".as_ptr(), libc::O_RDONLY).into(), libc::ENOENT);
        fails(libc::mkdir(c"/sys/nothing".as_ptr(), 0o700).into(), libc::EPERM);
        worked(libc::mkdir(directory.as_ptr(), 0o700).into());
        worked(libc::rmdir(directory.as_ptr()).into());
        worked(libc::chdir(c"/proc".as_ptr()).into());
        fails(libc::open(c"nothing".as_ptr(), libc::O_RDONLY).into(), libc::ENOENT);
        let directory = open(c"/sys/kernel", libc::O_DIRECTORY | libc::O_RDONLY);
        fails(libc::unlinkat(directory, c"nothing".as_ptr(), 0).into(), libc::ENOENT);
        close(directory);
    }
}

/// The number of writes of a [`crowd`] thread between two syncs.
const SYNCHRONISES: u64 = 50;

pub(crate) const fn of_crowd(threads: u64, times: u64) -> Counts {
    let all = threads * times;
    Counts {
        read: calls(all),
        write: calls(all),
        fsync: calls(threads * (times / SYNCHRONISES)),
        open: calls(0),
        create: calls(1),
        unlink: calls(0),
        bytes_read: all * BLOCK as u64,
        bytes_written: all * BLOCK as u64,
    }
}

/// Threads that write to and read from one file.
pub(crate) fn crowd(files: &Files, threads: usize, times: u64) {
    let file = open(&files.one, libc::O_CREAT | libc::O_RDWR);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| (1..=times).for_each(|time| one_of_crowd(file, time)));
        }
    });
    close(file);
}

fn one_of_crowd(file: i32, time: u64) {
    let mut bytes = ALL;
    // SAFETY: a descriptor and a buffer that live.
    unsafe {
        worked(libc::pwrite(file, bytes.as_ptr().cast(), BLOCK, 0) as _);
        worked(libc::pread(file, bytes.as_mut_ptr().cast(), BLOCK, 0) as _);
        if time.is_multiple_of(SYNCHRONISES) {
            worked(libc::fsync(file).into());
        }
    }
}

/// Writes until it is killed.
pub(crate) fn for_ever(files: &Files) {
    let file = open(&files.endless, libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC);
    loop {
        // SAFETY: a descriptor and a buffer that live.
        unsafe {
            worked(libc::pwrite(file, ALL.as_ptr().cast(), BLOCK, 0) as _);
            worked(libc::fsync(file).into());
        }
    }
}
