//! Storage that lives with a kernel object and dies with it, so that what goes leaves nothing behind: with a task
//! (`BPF_MAP_TYPE_TASK_STORAGE`; for tracing programs since kernel 5.13), or with a socket (`BPF_MAP_TYPE_SK_STORAGE`; since 5.11).
//! `aya-ebpf` 0.2 lacks the first, and has the second for other kinds of programs only.

use core::ffi::c_void;
use core::marker::PhantomData;
use core::ptr;

use aya_ebpf::bindings::bpf_map_type::{BPF_MAP_TYPE_SK_STORAGE, BPF_MAP_TYPE_TASK_STORAGE};
use aya_ebpf::bindings::{BPF_F_CLONE, BPF_F_NO_PREALLOC};
use aya_ebpf::helpers::generated::{bpf_sk_storage_get, bpf_task_storage_get};

use crate::kernel::Typed;

const CREATE: u64 = 1;

/// What the storage lies with: it decides which helper finds it.
pub trait Holder {
    /// # Safety
    ///
    /// As of the kernel's helper: the verifier checks the map, the object and the size of the initial value.
    unsafe fn find(map: *mut c_void, object: *mut c_void, initial: *mut c_void, flags: u64) -> *mut c_void;
}

pub struct Task;
pub struct Socket;

/// With a task. To make a value allocates: never do so with a run queue's lock held, where before 6.4 the allocator
/// may wake a thread and need that lock.
pub type TaskStorage<T> =
    Storage<T, Task, { BPF_MAP_TYPE_TASK_STORAGE as usize }, { BPF_F_NO_PREALLOC as usize }>;

/// With a socket; an accepted connection begins with a copy of its listening socket's (`BPF_F_CLONE`). None can be made for a
/// socket that is on its way out.
pub type SocketStorage<T> =
    Storage<T, Socket, { BPF_MAP_TYPE_SK_STORAGE as usize }, { (BPF_F_NO_PREALLOC | BPF_F_CLONE) as usize }>;

/// A map definition as the loader reads it from `.maps`: each member's type tells one attribute.
#[repr(C)]
pub struct Storage<T, H, const TYPE: usize, const FLAGS: usize> {
    r#type: *const [i32; TYPE],
    key: *const i32,
    value: *const T,
    max_entries: *const [i32; 0],
    map_flags: *const [i32; FLAGS],
    _value: PhantomData<(T, H)>,
}

// SAFETY: the definition is never read at run time; the kernel synchronises the map itself.
unsafe impl<T, H, const TYPE: usize, const FLAGS: usize> Sync for Storage<T, H, TYPE, FLAGS> {}

impl<T, H: Holder, const TYPE: usize, const FLAGS: usize> Storage<T, H, TYPE, FLAGS> {
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

    /// The object's value, if it has one.
    #[inline(always)]
    #[must_use]
    pub fn get(&self, object: Typed) -> Option<*mut T> {
        self.find(object, ptr::null_mut(), 0)
    }

    /// The object's value; where there is none, one that starts as `initial`.
    #[inline(always)]
    pub fn get_or_insert(&self, object: Typed, initial: &mut T) -> Option<*mut T> {
        self.find(object, ptr::from_mut(initial), CREATE)
    }

    #[inline(always)]
    fn find(&self, object: Typed, initial: *mut T, flags: u64) -> Option<*mut T> {
        let map = ptr::from_ref(self).cast_mut().cast::<c_void>();
        // SAFETY: the map is one of the holder's kind.
        let value = unsafe { H::find(map, object.as_ptr().cast_mut().cast(), initial.cast(), flags) };
        let value = value.cast::<T>();
        if value.is_null() { None } else { Some(value) }
    }
}

impl Holder for Task {
    #[inline(always)]
    unsafe fn find(map: *mut c_void, object: *mut c_void, initial: *mut c_void, flags: u64) -> *mut c_void {
        // SAFETY: the caller's promise.
        unsafe { bpf_task_storage_get(map, object.cast(), initial, flags) }
    }
}

impl Holder for Socket {
    #[inline(always)]
    unsafe fn find(map: *mut c_void, object: *mut c_void, initial: *mut c_void, flags: u64) -> *mut c_void {
        // SAFETY: the caller's promise.
        unsafe { bpf_sk_storage_get(map, object, initial, flags) }
    }
}
