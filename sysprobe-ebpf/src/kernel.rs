//! Kernel objects as the programs see them: an address, and members at offsets that are read-only globals.
//!
//! rustc emits no CO-RE relocations. The agent looks the offsets up in the running kernel's BTF and sets the globals
//! before loading; the verifier sees constants.

use aya_ebpf::Global;
use aya_ebpf::helpers::bpf_probe_read_kernel;

/// A kernel object whose members can be read.
pub trait Object: Copy {
    /// `None` if the address is bad.
    fn u64(self, offset: &Global<u32>) -> Option<u64>;
    fn u32(self, offset: &Global<u32>) -> Option<u32>;
    fn u16(self, offset: &Global<u32>) -> Option<u16>;
    /// The object that a member points to.
    fn follow(self, offset: &Global<u32>) -> Option<Self>;
}

/// An address that the verifier knows nothing about: each read is a helper call.
#[derive(Clone, Copy)]
pub struct Address(pub u64);

impl Object for Address {
    #[inline(always)]
    fn u64(self, offset: &Global<u32>) -> Option<u64> {
        read_u64(self.0, offset)
    }

    #[inline(always)]
    fn u32(self, offset: &Global<u32>) -> Option<u32> {
        read_u32(self.0, offset)
    }

    #[inline(always)]
    fn u16(self, offset: &Global<u32>) -> Option<u16> {
        read(self.0, offset)
    }

    #[inline(always)]
    fn follow(self, offset: &Global<u32>) -> Option<Self> {
        read_u64(self.0, offset).map(Self)
    }
}

impl Object for Typed {
    #[inline(always)]
    fn u64(self, offset: &Global<u32>) -> Option<u64> {
        Some(self.load_u64(offset))
    }

    #[inline(always)]
    fn u32(self, offset: &Global<u32>) -> Option<u32> {
        Some(self.load_u32(offset))
    }

    #[inline(always)]
    fn u16(self, offset: &Global<u32>) -> Option<u16> {
        Some(self.load_u16(offset))
    }

    /// A null pointer's members read as zero.
    #[inline(always)]
    fn follow(self, offset: &Global<u32>) -> Option<Self> {
        Some(Self(self.load_u64(offset) as *const u8))
    }
}

/// A pointer that the verifier knows to be a BTF-typed kernel object: its members may be loaded directly, and a fault
/// reads as zero.
#[derive(Clone, Copy)]
pub struct Typed(*const u8);

#[expect(clippy::cast_ptr_alignment, reason = "the kernel's members are aligned as their types demand")]
impl Typed {
    /// # Safety
    ///
    /// `pointer` is an argument of a typed program or the result of a helper that returns a typed pointer.
    #[inline(always)]
    #[must_use]
    pub const unsafe fn new(pointer: *const u8) -> Self {
        Self(pointer)
    }

    #[inline(always)]
    #[must_use]
    pub const fn as_ptr(self) -> *const u8 {
        self.0
    }

    #[inline(always)]
    #[must_use]
    pub fn load_u64(self, offset: &Global<u32>) -> u64 {
        // SAFETY: the verifier checks the access against the type; it refuses the program otherwise.
        unsafe { self.0.add(offset.load() as usize).cast::<u64>().read_volatile() }
    }

    #[inline(always)]
    #[must_use]
    pub fn load_u32(self, offset: &Global<u32>) -> u32 {
        // SAFETY: as in `load_u64`.
        unsafe { self.0.add(offset.load() as usize).cast::<u32>().read_volatile() }
    }

    #[inline(always)]
    #[must_use]
    fn load_u16(self, offset: &Global<u32>) -> u16 {
        // SAFETY: as in `load_u64`.
        unsafe { self.0.add(offset.load() as usize).cast::<u16>().read_volatile() }
    }
}

/// Reads eight bytes at `address + offset` of any kernel object. For paths that are walked rarely: a helper call each.
#[inline(always)]
#[must_use]
pub fn read_u64(address: u64, offset: &Global<u32>) -> Option<u64> {
    read(address, offset)
}

/// Reads four bytes; see [`read_u64`].
#[inline(always)]
#[must_use]
pub fn read_u32(address: u64, offset: &Global<u32>) -> Option<u32> {
    read(address, offset)
}

/// Reads eight bytes at an address.
#[inline(always)]
#[must_use]
pub fn read_u64_at(address: u64) -> Option<u64> {
    read_at(address)
}

#[inline(always)]
fn read<T>(address: u64, offset: &Global<u32>) -> Option<T> {
    read_at(address + u64::from(offset.load()))
}

#[inline(always)]
fn read_at<T>(address: u64) -> Option<T> {
    // SAFETY: the helper checks the address and fails on a bad one; the types are plain integers.
    unsafe { bpf_probe_read_kernel(address as *const T) }.ok()
}
