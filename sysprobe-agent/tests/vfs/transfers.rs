//! Data that the kernel moves without the caller's memory: from files and to files. A call counts once for
//! each side that is a file, however many pieces it takes.

use std::ffi::CString;
use std::path::Path;
use std::ptr::null_mut;

use super::calls::{close, fails, open, path, worked};
use super::counts::{Counts, calls as times};
use super::support::attach_modes::watchers;
use super::support::storage::{Kind, Storage};
use super::{ROOM, assert_nothing_lost, assert_same, watch};

/// The capacity of a pipe, in pages of 4096 bytes.
const PIPE: usize = 16 * 4096;
/// More than the kernel's internal pipe holds.
const LARGE: usize = 4 * PIPE;
/// The offset at which a second transfer begins.
const OFFSET: i64 = 4096;

struct Files {
    from: CString,
    to: CString,
}

impl Files {
    fn in_directory(directory: &Path) -> Self {
        let name = |name: &str| path(&directory.join(name));
        Self { from: name("from"), to: name("to") }
    }
}

fn pair(make: impl FnOnce(*mut i32) -> i32) -> [i32; 2] {
    let mut pair = [0; 2];
    worked(make(pair.as_mut_ptr()).into());
    pair
}

fn pipe() -> [i32; 2] {
    // SAFETY: room for two.
    pair(|pair| unsafe { libc::pipe(pair) })
}

/// Reads this many bytes, none of them from storage.
fn empty(pipe: i32, bytes: usize) {
    let mut page = [0_u8; 4096];
    for _ in 0..bytes / page.len() {
        // SAFETY: a buffer that lives.
        whole(unsafe { libc::read(pipe, page.as_mut_ptr().cast(), page.len()) }, page.len());
    }
}

/// Like `worked`, for a transfer that must be complete.
fn whole(result: isize, bytes: usize) {
    worked(if usize::try_from(result) == Ok(bytes) { 0 } else { -1 });
}

/// The expected counts of [`to_and_from_files`]; one `write` creates the file's content.
const TO_AND_FROM_FILES: Counts = Counts {
    read: times(3),
    write: times(4),
    create: times(2),
    bytes_read: 2 * LARGE as u64 + PIPE as u64,
    bytes_written: 3 * LARGE as u64 + PIPE as u64,
    ..Counts::NONE
};

/// From a file to a file, complete and in one call each, and through a pipe.
fn to_and_from_files(files: &Files) {
    static BYTES: [u8; LARGE] = [b'x'; LARGE];
    let (from, to) =
        (open(&files.from, libc::O_CREAT | libc::O_RDWR), open(&files.to, libc::O_CREAT | libc::O_RDWR));
    let (mut in_from, mut in_to) = (0, 0);
    let pipe = pipe();
    // SAFETY: descriptors, offsets and memory that live.
    unsafe {
        whole(libc::write(from, BYTES.as_ptr().cast(), LARGE), LARGE);
        whole(libc::sendfile(to, from, &raw mut in_from, LARGE), LARGE);
        in_from = 0;
        whole(libc::copy_file_range(from, &raw mut in_from, to, &raw mut in_to, LARGE, 0), LARGE);
        (in_from, in_to) = (OFFSET, OFFSET);
        whole(libc::splice(from, &raw mut in_from, pipe[1], null_mut(), PIPE, 0), PIPE);
        whole(libc::splice(pipe[0], null_mut(), to, &raw mut in_to, PIPE, 0), PIPE);
    }
    for file in [pipe[0], pipe[1], from, to] {
        close(file);
    }
}

/// The expected counts of [`one_side`], on the same files.
const ONE_SIDE: Counts = Counts {
    read: times(4),
    write: times(2),
    open: times(2),
    bytes_read: 3 * PIPE as u64 + 4096,
    bytes_written: 2 * 4096,
    ..Counts::NONE
};

/// Transfers whose other side is not storage: pipes, sockets, the caller's memory.
fn one_side(files: &Files) {
    let (from, to) = (open(&files.from, libc::O_RDONLY), open(&files.to, libc::O_WRONLY));
    let (pipe, other) = (pipe(), pipe());
    // SAFETY: descriptors, offsets and memory that live.
    unsafe {
        let sockets = pair(|pair| libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM, 0, pair));
        whole(libc::sendfile(pipe[1], from, null_mut(), PIPE), PIPE);
        empty(pipe[0], PIPE);
        whole(libc::splice(from, null_mut(), pipe[1], null_mut(), PIPE, 0), PIPE);
        empty(pipe[0], PIPE);
        let null = open(c"/dev/null", libc::O_WRONLY);
        whole(libc::splice(from, null_mut(), pipe[1], null_mut(), PIPE, 0), PIPE);
        whole(libc::splice(pipe[0], null_mut(), null, null_mut(), PIPE, 0), PIPE);
        close(null);
        whole(libc::sendfile(sockets[1], from, null_mut(), 4096), 4096);
        whole(libc::splice(sockets[0], null_mut(), pipe[1], null_mut(), 4096, 0), 4096);
        whole(libc::tee(pipe[0], other[1], 4096, 0), 4096);
        whole(libc::splice(pipe[0], null_mut(), to, null_mut(), 4096, 0), 4096);
        empty(other[0], 4096);
        let bytes = [b'v'; 4096];
        let iovec = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: 4096 };
        whole(libc::vmsplice(pipe[1], &raw const iovec, 1, 0), 4096);
        whole(libc::splice(pipe[0], null_mut(), to, null_mut(), 4096, 0), 4096);
        sockets.into_iter().for_each(close);
    }
    for file in [pipe[0], pipe[1], other[0], other[1], from, to] {
        close(file);
    }
}

/// The expected counts of [`nothing_moves`].
const NOTHING_MOVES: Counts = Counts {
    read: super::counts::Count { calls: 5, errors: 2 },
    write: super::counts::Count { calls: 4, errors: 2 },
    open: times(2),
    ..Counts::NONE
};

/// At the end of the file, there is nothing to move. A refused call is an error on both sides.
fn nothing_moves(files: &Files) {
    let (from, to) = (open(&files.from, libc::O_RDONLY), open(&files.to, libc::O_RDWR));
    let pipe = pipe();
    // SAFETY: descriptors and offsets that live.
    unsafe {
        let end = worked(libc::lseek(from, 0, libc::SEEK_END));
        let (mut first, mut second) = (end, 0);
        whole(libc::sendfile(to, from, &raw mut first, PIPE), 0);
        first = end;
        whole(libc::copy_file_range(from, &raw mut first, to, &raw mut second, PIPE, 0), 0);
        first = end;
        whole(libc::splice(from, &raw mut first, pipe[1], null_mut(), PIPE, 0), 0);
        // Onto itself, and to a file that is not open for writing.
        (first, second) = (0, 1);
        fails(libc::copy_file_range(to, &raw mut first, to, &raw mut second, PIPE, 0) as _, libc::EINVAL);
        (first, second) = (0, 0);
        fails(libc::copy_file_range(to, &raw mut first, from, &raw mut second, PIPE, 0) as _, libc::EBADF);
    }
    for file in [pipe[0], pipe[1], from, to] {
        close(file);
    }
}

#[test]
fn what_is_moved_counts_once_for_each_file_on_every_file_system() {
    let watchers = watchers("vfs");
    for kind in Kind::ALL {
        let storage = Storage::of(kind, ROOM);
        let files = Files::in_directory(storage.path());
        let steps: [(_, fn(&Files), _); 3] = [
            ("files", to_and_from_files, TO_AND_FROM_FILES),
            ("one-side", one_side, ONE_SIDE),
            ("nothing", nothing_moves, NOTHING_MOVES),
        ];
        for (name, step, expected) in steps {
            let name = format!("{name}-{}", kind.name());
            assert_same(&name, &watch(&watchers, &name, || step(&files)), &expected);
        }
    }
    assert_nothing_lost(&watchers);
}
