//! Task-local storage (`BPF_MAP_TYPE_TASK_STORAGE`; for tracing programs since kernel 5.13), which `aya-ebpf` 0.2 lacks. The value lives and dies
//! with its task, so an exiting task leaves nothing behind.

use core::ffi::c_void;
use core::marker::PhantomData;
use core::ptr;

use aya_ebpf::bindings::BPF_F_NO_PREALLOC;
use aya_ebpf::bindings::bpf_map_type::BPF_MAP_TYPE_TASK_STORAGE;
use aya_ebpf::helpers::generated::bpf_task_storage_get;

use crate::kernel::Typed;

const CREATE: u64 = 1;

/// A map definition as the loader reads it from `.maps`: each member's type tells one attribute.
#[repr(C)]
pub struct TaskStorage<T> {
    r#type: *const [i32; BPF_MAP_TYPE_TASK_STORAGE as usize],
    key: *const i32,
    value: *const T,
    max_entries: *const [i32; 0],
    map_flags: *const [i32; BPF_F_NO_PREALLOC as usize],
    _value: PhantomData<T>,
}

// SAFETY: the definition is never read at run time; the kernel synchronises the map itself.
unsafe impl<T> Sync for TaskStorage<T> {}

impl<T> TaskStorage<T> {
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

    /// The task's value, if it has one.
    #[inline(always)]
    #[must_use]
    pub fn get(&self, task: Typed) -> Option<*mut T> {
        self.storage(task, ptr::null_mut(), 0)
    }

    /// The task's value; where there is none, one that starts as `initial`. Allocates: never call it with a run
    /// queue's lock held, where before 6.4 the allocator may wake a thread and need that lock.
    #[inline(always)]
    pub fn get_or_insert(&self, task: Typed, initial: &mut T) -> Option<*mut T> {
        self.storage(task, ptr::from_mut(initial), CREATE)
    }

    #[inline(always)]
    fn storage(&self, task: Typed, initial: *mut T, flags: u64) -> Option<*mut T> {
        let map = ptr::from_ref(self).cast_mut().cast::<c_void>();
        // SAFETY: the verifier checks the map, the task and the size of the initial value.
        let value =
            unsafe { bpf_task_storage_get(map, task.as_ptr().cast_mut().cast(), initial.cast(), flags) };
        let value = value.cast::<T>();
        if value.is_null() { None } else { Some(value) }
    }
}
