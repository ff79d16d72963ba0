//! Socket-local storage (`BPF_MAP_TYPE_SK_STORAGE`; for tracing programs since kernel 5.11), which `aya-ebpf` 0.2 has for other
//! kinds of programs only. The value lives and dies with its socket, and an accepted connection begins with a copy of its
//! listening socket's (`BPF_F_CLONE`).

use core::ffi::c_void;
use core::marker::PhantomData;
use core::ptr;

use aya_ebpf::bindings::bpf_map_type::BPF_MAP_TYPE_SK_STORAGE;
use aya_ebpf::bindings::{BPF_F_CLONE, BPF_F_NO_PREALLOC};
use aya_ebpf::helpers::generated::bpf_sk_storage_get;

use crate::kernel::Typed;

const CREATE: u64 = 1;
const FLAGS: usize = (BPF_F_NO_PREALLOC | BPF_F_CLONE) as usize;

/// A map definition as the loader reads it from `.maps`: each member's type tells one attribute.
#[repr(C)]
pub struct SocketStorage<T> {
    r#type: *const [i32; BPF_MAP_TYPE_SK_STORAGE as usize],
    key: *const i32,
    value: *const T,
    max_entries: *const [i32; 0],
    map_flags: *const [i32; FLAGS],
    _value: PhantomData<T>,
}

// SAFETY: the definition is never read at run time; the kernel synchronises the map itself.
unsafe impl<T> Sync for SocketStorage<T> {}

impl<T> SocketStorage<T> {
    #[expect(clippy::new_without_default, reason = "a map is a static, and `Default` is not const")]
    #[must_use]
    pub const fn new() -> Self {
        Self {
            r#type: ptr::null(),
            key: ptr::null(),
            value: ptr::null(),
            max_entries: ptr::null(),
            map_flags: ptr::null(),
            _value: PhantomData,
        }
    }

    /// The socket's value, if it has one.
    #[inline(always)]
    #[must_use]
    pub fn get(&self, socket: Typed) -> Option<*mut T> {
        self.storage(socket, ptr::null_mut(), 0)
    }

    /// The socket's value; where there is none, one that starts as `initial`. Nothing for a socket that is on its way out.
    #[inline(always)]
    pub fn get_or_insert(&self, socket: Typed, initial: &mut T) -> Option<*mut T> {
        self.storage(socket, ptr::from_mut(initial), CREATE)
    }

    #[inline(always)]
    fn storage(&self, socket: Typed, initial: *mut T, flags: u64) -> Option<*mut T> {
        let map = ptr::from_ref(self).cast_mut().cast::<c_void>();
        // SAFETY: the verifier checks the map, the socket and the size of the initial value.
        let value =
            unsafe { bpf_sk_storage_get(map, socket.as_ptr().cast_mut().cast(), initial.cast(), flags) };
        let value = value.cast::<T>();
        if value.is_null() { None } else { Some(value) }
    }
}
