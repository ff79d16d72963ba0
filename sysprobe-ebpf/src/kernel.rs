//! Kernel objects as the programs see them: an address, and members at offsets that are read-only globals.
//!
//! rustc emits no CO-RE relocations. The agent looks the offsets up in the running kernel's BTF and sets the
//! globals before loading; the verifier sees constants.

use core::ffi::c_void;
use core::mem::transmute;
use core::ptr;

use aya_ebpf::Global;
use aya_ebpf::helpers::generated::{bpf_get_current_task, bpf_get_current_task_btf};
use aya_ebpf::helpers::{bpf_probe_read_kernel, generated};
use aya_ebpf::programs::BtfTracePointContext;
use sysprobe_common::cast::CALL;

use crate::globals;

globals!(
    /// BTF type ids; 0 where the kernel has no `bpf_rdonly_cast` (before 6.2).
    BTF_FILE,
    BTF_LIST_HEAD,
    BTF_UDP_SOCK,
    /// The number of the helper that returns the current task with its type; absent before 5.11. Most
    /// programs are only for later kernels and do not ask.
    VAL_TYPED_CURRENT,
);

/// The offset of a member that this kernel does not have.
pub const ABSENT: u32 = u32::MAX;

/// A kernel object whose members can be read.
pub trait Object: Copy {
    /// `None` if the address is bad.
    fn u64(self, offset: &Global<u32>) -> Option<u64>;
    fn u32(self, offset: &Global<u32>) -> Option<u32>;
    fn u16(self, offset: &Global<u32>) -> Option<u16>;
    fn u8(self, offset: &Global<u32>) -> Option<u8>;
    /// Reads from a structure that is stored in another member, as in `sk_buff.cb`.
    fn u32_within(self, member: &Global<u32>, offset: &Global<u32>) -> Option<u32>;
    fn u8_within(self, member: &Global<u32>, offset: &Global<u32>) -> Option<u8>;
    /// 0 if the address is bad. Without a branch, because the verifier would follow both sides.
    fn u64_or_zero(self, offset: &Global<u32>) -> u64;
    /// The object that a member points to; at address 0 if the address of this one is bad.
    #[must_use]
    fn follow_or_null(self, offset: &Global<u32>) -> Self;
    /// Element `index` of an array; 0 if the address is bad.
    fn u32_of(self, offset: &Global<u32>, index: usize) -> u32;
    /// The object that a member points to.
    fn follow(self, offset: &Global<u32>) -> Option<Self>;
    /// The object's address; 0 for null.
    fn address(self) -> u64;
    /// The file whose address is at `place`, if objects of this kind can be cast to a type.
    fn cast_file(place: u64) -> Option<Typed>;
    /// The same socket as a `udp_sock`; the caller has checked that it is one. `None` if it cannot be cast.
    fn cast_udp(self) -> Option<Typed>;
    /// The current task, if this kernel gives it to programs as an object of this kind.
    fn current_task() -> Option<Self>;
}

/// An address that the verifier knows nothing about: each read is a helper call.
#[derive(Clone, Copy)]
pub struct Address(pub u64);

/// A bad address reads as zero when loaded, as with a typed object.
impl Address {
    /// The current task.
    #[inline(always)]
    #[must_use]
    pub fn current() -> Self {
        // SAFETY: the helper only returns an address.
        Self(unsafe { bpf_get_current_task() })
    }

    #[inline(always)]
    #[must_use]
    pub fn load_u64(self, offset: &Global<u32>) -> u64 {
        read_or_zero(self.0, offset)
    }

    #[inline(always)]
    #[must_use]
    pub fn load_u32(self, offset: &Global<u32>) -> u32 {
        read_or_zero(self.0, offset)
    }

    #[inline(always)]
    #[must_use]
    pub fn load_u32_of(self, offset: &Global<u32>, index: usize) -> u32 {
        self.u32_of(offset, index)
    }

    #[inline(always)]
    #[must_use]
    pub fn load_u8(self, offset: &Global<u32>) -> u8 {
        read_or_zero(self.0, offset)
    }
}

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
    fn u8(self, offset: &Global<u32>) -> Option<u8> {
        read(self.0, offset)
    }

    #[inline(always)]
    fn u32_within(self, member: &Global<u32>, offset: &Global<u32>) -> Option<u32> {
        read(self.0 + u64::from(member.load()), offset)
    }

    #[inline(always)]
    fn u8_within(self, member: &Global<u32>, offset: &Global<u32>) -> Option<u8> {
        read(self.0 + u64::from(member.load()), offset)
    }

    #[inline(always)]
    fn u64_or_zero(self, offset: &Global<u32>) -> u64 {
        self.load_u64(offset)
    }

    #[inline(always)]
    fn follow_or_null(self, offset: &Global<u32>) -> Self {
        Self(self.load_u64(offset))
    }

    #[inline(always)]
    fn u32_of(self, offset: &Global<u32>, index: usize) -> u32 {
        read_or_zero(self.0 + 4 * index as u64, offset)
    }

    #[inline(always)]
    fn follow(self, offset: &Global<u32>) -> Option<Self> {
        read_u64(self.0, offset).map(Self)
    }

    #[inline(always)]
    fn address(self) -> u64 {
        self.0
    }

    /// Never: the kernel's casts need the JIT, and programs with addresses are for kernels with the
    /// interpreter, too.
    #[inline(always)]
    fn cast_file(_place: u64) -> Option<Typed> {
        None
    }

    #[inline(always)]
    fn cast_udp(self) -> Option<Typed> {
        None
    }

    #[inline(always)]
    fn current_task() -> Option<Self> {
        Some(Self::current())
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

    #[inline(always)]
    fn u8(self, offset: &Global<u32>) -> Option<u8> {
        Some(self.load_u8(offset))
    }

    /// The verifier allows reads of any type from an array of integers.
    #[inline(always)]
    #[expect(clippy::cast_ptr_alignment, reason = "as the structure that lies there demands")]
    fn u32_within(self, member: &Global<u32>, offset: &Global<u32>) -> Option<u32> {
        // SAFETY: as in `load_u64`.
        Some(unsafe { self.within(member, offset).cast::<u32>().read_volatile() })
    }

    #[inline(always)]
    fn u8_within(self, member: &Global<u32>, offset: &Global<u32>) -> Option<u8> {
        // SAFETY: as in `load_u64`.
        Some(unsafe { self.within(member, offset).read_volatile() })
    }

    #[inline(always)]
    fn u64_or_zero(self, offset: &Global<u32>) -> u64 {
        self.load_u64(offset)
    }

    #[inline(always)]
    fn follow_or_null(self, offset: &Global<u32>) -> Self {
        Self(self.load_u64(offset) as *const u8)
    }

    #[inline(always)]
    fn u32_of(self, offset: &Global<u32>, index: usize) -> u32 {
        self.load_u32_of(offset, index)
    }

    /// A null pointer's members read as zero.
    #[inline(always)]
    fn follow(self, offset: &Global<u32>) -> Option<Self> {
        Some(Self(self.load_u64(offset) as *const u8))
    }

    #[inline(always)]
    fn address(self) -> u64 {
        self.0 as u64
    }

    /// The members are then loaded as those of any typed object, even if the address is bad.
    #[inline(always)]
    fn cast_file(place: u64) -> Option<Self> {
        if BTF_FILE.load() == 0 {
            return None;
        }
        // The first member of a list head is an address, so this cast allows one to be loaded.
        let file = Self::cast(place, &BTF_LIST_HEAD).first();
        Some(Self::cast(file, &BTF_FILE))
    }

    #[inline(always)]
    fn cast_udp(self) -> Option<Self> {
        if BTF_UDP_SOCK.load() == 0 { None } else { Some(Self::cast(self.address(), &BTF_UDP_SOCK)) }
    }

    #[inline(always)]
    fn current_task() -> Option<Self> {
        if VAL_TYPED_CURRENT.load() == ABSENT { None } else { Some(Self::current()) }
    }
}

/// A pointer that the verifier knows to be a BTF-typed kernel object: its members may be loaded directly, and
/// a fault reads as zero.
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

    /// The current task (since 5.11).
    #[inline(always)]
    #[must_use]
    pub fn current() -> Self {
        // SAFETY: the helper returns a typed pointer to the current task.
        unsafe { Self::new(bpf_get_current_task_btf().cast_const().cast()) }
    }

    /// An argument of a typed tracepoint.
    ///
    /// # Safety
    ///
    /// The argument is a pointer.
    #[inline(always)]
    #[must_use]
    pub unsafe fn argument(ctx: &BtfTracePointContext, place: usize) -> Self {
        Self(ctx.arg(place))
    }

    /// The kernel's `bpf_rdonly_cast`. The verifier replaces the call by a move.
    #[inline(always)]
    fn cast(address: u64, ty: &Global<u32>) -> Self {
        // SAFETY: the agent replaces this by a call of the kernel's function, which has that signature.
        let cast: unsafe extern "C" fn(u64, u32) -> *const u8 = unsafe { transmute(CALL as usize) };
        // SAFETY: the verifier checks the type id, and every load from the result.
        Self(unsafe { cast(address, ty.load()) })
    }

    #[inline(always)]
    unsafe fn within(self, member: &Global<u32>, offset: &Global<u32>) -> *const u8 {
        // SAFETY: the caller's load is checked by the verifier.
        unsafe { self.0.add(member.load() as usize + offset.load() as usize) }
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
    fn first(self) -> u64 {
        // SAFETY: as in `load_u64`.
        unsafe { self.0.cast::<u64>().read_volatile() }
    }

    #[inline(always)]
    #[must_use]
    pub fn load_u32(self, offset: &Global<u32>) -> u32 {
        // SAFETY: as in `load_u64`.
        unsafe { self.0.add(offset.load() as usize).cast::<u32>().read_volatile() }
    }

    #[inline(always)]
    #[must_use]
    pub fn load_u32_of(self, offset: &Global<u32>, index: usize) -> u32 {
        // SAFETY: as in `load_u64`.
        unsafe { self.0.add(offset.load() as usize + 4 * index).cast::<u32>().read_volatile() }
    }

    #[inline(always)]
    #[must_use]
    pub fn load_u8(self, offset: &Global<u32>) -> u8 {
        // SAFETY: as in `load_u64`.
        unsafe { self.0.add(offset.load() as usize).read_volatile() }
    }

    #[inline(always)]
    #[must_use]
    pub fn load_u16(self, offset: &Global<u32>) -> u16 {
        // SAFETY: as in `load_u64`.
        unsafe { self.0.add(offset.load() as usize).cast::<u16>().read_volatile() }
    }
}

/// Reads eight bytes at `address + offset` of any kernel object. Each read is a helper call, so this is for
/// paths that are rarely taken.
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

/// Without a branch, because the verifier would follow both sides. At a bad address the helper itself writes
/// zeros.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the size of an integer")]
fn read_or_zero<T: Default>(address: u64, offset: &Global<u32>) -> T {
    let mut value = T::default();
    let place = ptr::from_mut(&mut value).cast();
    let from = (address + u64::from(offset.load())) as *const c_void;
    // SAFETY: the size is that of the place; the types are plain integers.
    unsafe { generated::bpf_probe_read_kernel(place, size_of::<T>() as u32, from) };
    value
}
