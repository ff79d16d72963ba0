//! Array maps in the agent's address space, so reading them needs no system call.

use std::io;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// A value for which any bits are valid, because a kernel program writes it: integers, and arrays and structs
/// of them.
///
/// ```compile_fail
/// fn mapped<T: sysprobe_agent::bpf::Plain>() {}
/// // A `bool` that is neither 0 nor 1 is invalid.
/// mapped::<bool>();
/// ```
///
/// # Safety
///
/// Every bit pattern must be a valid value, without a reference or a lifetime in it.
pub unsafe trait Plain: Copy + 'static {}

// SAFETY: an integer.
unsafe impl Plain for u64 {}

/// An array map of plain values, mapped for reading and writing. Kernel programs write to it meanwhile.
///
/// The kernel counts all pages of a mapping towards the process's memory, touched or not. So of a large map,
/// only the requested part is mapped.
#[derive(Debug)]
pub struct MappedArray<T> {
    map: OwnedFd,
    /// The number of values in the map.
    entries: usize,
    mapping: Mapping<T>,
}

impl<T: Plain> MappedArray<T> {
    /// Maps all of a `BPF_F_MMAPABLE` array whose values have the size of `T`, a multiple of eight.
    pub fn new(map: BorrowedFd<'_>, entries: u32) -> io::Result<Self> {
        let entries = entries as usize;
        Ok(Self { map: map.try_clone_to_owned()?, entries, mapping: Mapping::new(map, entries)? })
    }

    /// Maps the first values; [`Self::reach`] maps more.
    pub fn growing(map: BorrowedFd<'_>, entries: u32) -> io::Result<Self> {
        const FIRST: usize = 16;
        let entries = entries as usize;
        let mapping = Mapping::new(map, entries.min(FIRST))?;
        Ok(Self { map: map.try_clone_to_owned()?, entries, mapping })
    }

    /// Makes this value, and all before it, readable.
    pub fn reach(&mut self, index: usize) -> io::Result<()> {
        if index >= self.mapping.entries && index < self.entries {
            // Doubled, so that a map that fills up is remapped only a few times.
            let wanted = (index + 1).next_power_of_two().min(self.entries);
            self.mapping = Mapping::new(self.map.as_fd(), wanted)?;
        }
        Ok(())
    }

    /// The number of values that are mapped.
    #[must_use]
    pub const fn entries(&self) -> usize {
        self.mapping.entries
    }

    /// A copy of one value, made word by word: each member that a program updates meanwhile is old or new,
    /// never torn.
    #[must_use]
    pub fn read(&self, index: usize) -> Option<T> {
        if index >= self.mapping.entries {
            return None;
        }
        let mut value = MaybeUninit::<T>::uninit();
        for word in 0..size_of::<T>() / size_of::<u64>() {
            // SAFETY: inside the mapping and inside `value`, both aligned to eight bytes.
            unsafe {
                let source = self.mapping.start.add(index).cast::<u64>().add(word);
                value.as_mut_ptr().cast::<u64>().add(word).write(source.read_volatile());
            }
        }
        // SAFETY: every word was written, and `Plain` values are valid whatever their bits.
        Some(unsafe { value.assume_init() })
    }

    /// One word of a value, by its byte offset.
    #[must_use]
    pub fn word(&self, index: usize, offset: usize) -> Option<u64> {
        let is_inside = index < self.mapping.entries && offset + size_of::<u64>() <= size_of::<T>();
        // SAFETY: inside the mapping; the place is rounded down to a whole word.
        is_inside.then(|| unsafe {
            self.mapping.start.add(index).cast::<u64>().add(offset / size_of::<u64>()).read_volatile()
        })
    }

    /// Overwrites one value. Only for values that no kernel program writes to, or no longer writes to.
    pub fn write(&mut self, index: usize, value: T) {
        if index < self.mapping.entries {
            // SAFETY: as in `read`.
            unsafe { self.mapping.start.add(index).write_volatile(value) };
        }
    }
}

impl MappedArray<u64> {
    /// Adds atomically to a number to which BPF programs also add.
    pub fn add(&self, index: usize, value: u64) {
        if index < self.mapping.entries {
            // SAFETY: inside the mapping and aligned; programs change it only by atomic instructions.
            let number = unsafe { AtomicU64::from_ptr(self.mapping.start.add(index).as_ptr()) };
            number.fetch_add(value, Ordering::SeqCst);
        }
    }
}

/// The mapped part of a map: its first values.
#[derive(Debug)]
struct Mapping<T> {
    start: NonNull<T>,
    entries: usize,
    bytes: usize,
    _value: PhantomData<T>,
}

// SAFETY: the mapping belongs to this value alone and is only reached through volatile and atomic
// accesses.
unsafe impl<T: Send> Send for Mapping<T> {}

impl<T: Plain> Mapping<T> {
    fn new(map: BorrowedFd<'_>, entries: usize) -> io::Result<Self> {
        const {
            // A mapping begins with a page, and the kernel rounds a value's size up to whole words.
            assert!(size_of::<T>().is_multiple_of(8) && align_of::<T>() >= 8, "values are whole words");
            assert!(align_of::<T>() <= 4096, "values are aligned to a page at most");
        }
        // SAFETY: `sysconf` has no preconditions.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        let page = usize::try_from(page).map_err(|_| io::Error::last_os_error())?;
        let bytes = (entries * size_of::<T>()).next_multiple_of(page);
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                map.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start =
            NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mmap returned a null address"))?;
        Ok(Self { start, entries, bytes, _value: PhantomData })
    }
}

impl<T> Drop for Mapping<T> {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping that `new` made; nothing borrows from it.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
