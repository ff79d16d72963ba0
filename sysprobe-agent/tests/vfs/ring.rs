//! Reads a file through `io_uring`.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;

use io_uring::squeue::Entry;
use io_uring::types::Fd;
use io_uring::{IoUring, opcode};

use super::support::attach_modes::kernel;

pub(crate) const BLOCK: usize = 4096;

/// The number of reads that the agent sees. It can distinguish requests from 6.0 on.
pub(crate) fn seen(times: u64) -> u64 {
    if kernel() >= (6, 0) { times } else { 0 }
}

pub(crate) fn read(file: &File, buffer: &mut [u8]) -> Entry {
    let length = u32::try_from(buffer.len()).expect("a few bytes");
    opcode::Read::new(Fd(file.as_raw_fd()), buffer.as_mut_ptr(), length).build()
}

pub(crate) fn push(ring: &mut IoUring, entry: &Entry) {
    // SAFETY: descriptors and buffers live until the ring is dropped.
    unsafe { ring.submission().push(entry) }.expect("there is room");
}

/// Reads one block this many times, one after the other.
pub(crate) fn read_block(path: &Path, times: u64) {
    let mut ring = IoUring::new(4).expect("a ring");
    let file = File::open(path).expect("a file");
    let mut buffer = [0; BLOCK];
    for _ in 0..times {
        push(&mut ring, &read(&file, &mut buffer));
        ring.submit_and_wait(1).expect("it completes");
        assert_eq!(ring.completion().next().map(|done| done.result()), Some(4096));
    }
}
