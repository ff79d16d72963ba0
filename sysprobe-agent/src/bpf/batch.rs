//! Reads all entries of a hash map in a few system calls (`BPF_MAP_LOOKUP_BATCH`, Linux 5.6) instead of two
//! for each key.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use aya::Pod;
use aya_obj::generated::bpf_cmd;

use super::syscall::{bpf, zeroed};

/// Reusable buffers for the entries of one map. By default, the values are slots.
#[derive(Debug)]
pub struct Entries<K, V = u32> {
    keys: Vec<K>,
    values: Vec<V>,
    filled: usize,
}

impl<K: Pod + Default, V: Pod + Default> Entries<K, V> {
    #[must_use]
    pub fn with_capacity(entries: u32) -> Self {
        let entries = entries as usize;
        Self { keys: vec![K::default(); entries], values: vec![V::default(); entries], filled: 0 }
    }

    /// Reads the map. An entry that is added or removed meanwhile may or may not be seen.
    pub fn read(&mut self, map: BorrowedFd<'_>) -> io::Result<()> {
        self.filled = 0;
        // The kernel's cursor into the map: a bucket number.
        let mut position = 0_u64;
        let mut first = true;
        loop {
            let (count, end) = self.read_batch(map, &mut position, first)?;
            self.filled += count;
            first = false;
            if end || self.filled == self.keys.len() {
                return Ok(());
            }
        }
    }

    /// Passes all entries of a map to `take`, one buffer at a time. As in [`read`](Self::read), an entry that
    /// is added or removed meanwhile may or may not be seen.
    pub fn visit(&mut self, map: BorrowedFd<'_>, mut take: impl FnMut(K, V)) -> io::Result<()> {
        self.filled = 0;
        let (mut position, mut first) = (0_u64, true);
        loop {
            let (count, end) = self.read_batch(map, &mut position, first)?;
            for (key, value) in self.keys.iter().zip(&self.values).take(count) {
                take(*key, *value);
            }
            if end {
                return Ok(());
            }
            first = false;
        }
    }

    /// The entries that the last `read` found.
    pub fn iter(&self) -> impl Iterator<Item = (K, V)> {
        self.keys.iter().copied().zip(self.values.iter().copied()).take(self.filled)
    }

    #[must_use]
    pub const fn len(&self) -> usize {
        self.filled
    }

    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// One system call. Returns how many entries it read, and whether they were the last.
    fn read_batch(
        &mut self,
        map: BorrowedFd<'_>,
        position: &mut u64,
        first: bool,
    ) -> io::Result<(usize, bool)> {
        let mut next = 0_u64;
        let mut attr = zeroed();
        attr.batch.map_fd = map.as_raw_fd().cast_unsigned();
        attr.batch.in_batch = if first { 0 } else { std::ptr::from_mut(position) as u64 };
        attr.batch.out_batch = std::ptr::from_mut(&mut next) as u64;
        attr.batch.keys = self.keys[self.filled..].as_mut_ptr() as u64;
        attr.batch.values = self.values[self.filled..].as_mut_ptr() as u64;
        attr.batch.count = u32::try_from(self.keys.len() - self.filled).unwrap_or(u32::MAX);
        // SAFETY: both vectors have room for `count` entries of the map's sizes, and the positions outlive
        // the call.
        let result = unsafe { bpf(bpf_cmd::BPF_MAP_LOOKUP_BATCH, &mut attr) };
        // SAFETY: the kernel has written the number of entries, also when it ends with `ENOENT`.
        let count = unsafe { attr.batch.count } as usize;
        *position = next;
        match result {
            Ok(()) => Ok((count, false)),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok((count, true)),
            Err(error) => Err(error),
        }
    }
}
