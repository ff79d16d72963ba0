//! Storage that lives with a kernel object and dies with it, so that what goes leaves nothing behind: with a
//! task (`BPF_MAP_TYPE_TASK_STORAGE`; for tracing programs since kernel 5.13), or with a socket
//! (`BPF_MAP_TYPE_SK_STORAGE`; since 5.11). `aya-ebpf` 0.2 lacks the first, and has the second for other
//! kinds of programs only.
//!
//! Storage is charged to the memory cgroup of the process that made the map: the agent's. A failure must stay
//! the agent's alone, so no storage is copied along with a socket (`BPF_F_CLONE`): where the copy fails, the
//! kernel frees the new connection (`sk_clone`). And what is made is bounded by a [`Budget`] that ends before
//! the memory does.

use core::ffi::c_void;
use core::marker::PhantomData;
use core::ptr;

use aya_ebpf::bindings::bpf_map_type::{BPF_MAP_TYPE_SK_STORAGE, BPF_MAP_TYPE_TASK_STORAGE};
use aya_ebpf::bindings::{BPF_F_MMAPABLE, BPF_F_NO_PREALLOC};
use aya_ebpf::btf_maps::{Array, ArrayOfMaps};
use aya_ebpf::helpers::generated::{bpf_sk_storage_get, bpf_task_storage_delete, bpf_task_storage_get};
use sysprobe_common::storage::{GRANTED, MADE, REFUSED, WORDS};
use sysprobe_common::tcp::STORAGES;

use crate::kernel::{ABSENT, Object as _, Typed};
use crate::{GOLDEN, counter, settings};

settings!(
    /// Of the kernel's function by which programs get at task storage since 6.2, however deep they are
    /// nested: its parameters.
    ARGS_STORAGE_GET_RECUR,
);

const CREATE: u64 = 1;

const EBUSY: i64 = 16;

/// What the storage lies with: it decides which helper finds it.
pub trait Holder {
    /// # Safety
    ///
    /// As of the kernel's helper: the verifier checks the map, the object and the size of the initial value.
    unsafe fn find(map: *mut c_void, object: *mut c_void, initial: *mut c_void, flags: u64) -> *mut c_void;
}

pub struct Task;
pub struct Socket;

/// With a task. To make a value allocates: never do so with a run queue's lock held, where before 6.4 the
/// allocator may wake a thread and need that lock.
pub type TaskStorage<T> =
    Storage<T, Task, { BPF_MAP_TYPE_TASK_STORAGE as usize }, { BPF_F_NO_PREALLOC as usize }>;

/// With a socket. None can be made for a socket that is on its way out.
pub type SocketStorage<T> =
    Storage<T, Socket, { BPF_MAP_TYPE_SK_STORAGE as usize }, { BPF_F_NO_PREALLOC as usize }>;

/// The same spread over several maps, by the socket's address.
pub type SpreadStorage<T> = ArrayOfMaps<SocketStorage<T>, { STORAGES.len() }>;

/// The one of the maps that has what is stored with a socket.
#[inline(always)]
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "the highest bits, of which there are few")]
pub fn storage_of<T>(maps: &SpreadStorage<T>, socket: Typed) -> Option<&SocketStorage<T>> {
    // Sockets lie at multiples of their size.
    let scattered = distance(ptr::from_ref(maps).cast(), socket).wrapping_mul(GOLDEN);
    maps.get((scattered >> (u64::BITS - STORAGES.len().ilog2())) as u32)
}

/// How far a socket lies from the maps' array. The verifier has no arithmetic for a pointer, but the
/// difference of two is a number; and the array is the same in all objects.
#[inline(always)]
fn distance(maps: *const c_void, socket: Typed) -> u64 {
    let mut distance = socket.address();
    #[cfg(target_arch = "bpf")]
    // SAFETY: it subtracts one register from another. The compiler would add the negative of a constant.
    unsafe {
        core::arch::asm!("{distance} -= {maps}", distance = inout(reg) distance, maps = in(reg) maps);
    }
    #[cfg(not(target_arch = "bpf"))]
    {
        distance = distance.wrapping_sub(maps as u64);
    }
    distance
}

/// How much an object may make. The agent writes what it grants, the programs count what they make.
pub type Budget = Array<u64, WORDS, { BPF_F_MMAPABLE as usize }>;

/// Whether one more may be made. A look at this comes before all that a new value costs. Several CPUs may see
/// the last place free at the same time: so many more are made.
#[inline(always)]
#[must_use]
pub fn has_room(budget: &Budget) -> bool {
    let word = |place| budget.get(place).copied().unwrap_or(0);
    word(MADE) < word(GRANTED)
}

/// Counts one that the budget had no room for.
#[inline(always)]
pub fn refuse(budget: &Budget) {
    counter::count(budget, REFUSED);
}

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

    /// The object's value; where there is none, one that starts as `initial`, if the budget has room for it.
    /// `lose` is called where the kernel has no memory, or the object is on its way out.
    #[inline(always)]
    pub fn get_or_make(
        &self,
        object: Typed,
        initial: &mut T,
        budget: &Budget,
        lose: impl FnOnce(),
    ) -> Option<*mut T> {
        if !has_room(budget) {
            refuse(budget);
            return None;
        }
        let Some(made) = self.get_or_insert(object, initial) else {
            lose();
            return None;
        };
        counter::count(budget, MADE);
        Some(made)
    }

    /// The same without a budget.
    #[inline(always)]
    pub fn get_or_insert(&self, object: Typed, initial: &mut T) -> Option<*mut T> {
        let initial = ptr::from_mut(initial);
        // What all maps keep with an object hangs on one thing, made with the first value. Of two programs on
        // two CPUs that make it, the kernel refuses one (`bpf_local_storage_alloc`, EAGAIN): by then it is
        // there.
        self.find(object, initial, CREATE).or_else(|| self.find(object, initial, CREATE))
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

impl<T, const TYPE: usize, const FLAGS: usize> Storage<T, Task, TYPE, FLAGS> {
    /// Whether a task that seems to have no value may have one all the same: before 6.2 nothing is found as
    /// long as another call on any task's storage is under way on this CPU, below this program.
    ///
    /// To delete what is not there fails, and tells why. It is never there: to be asked with interrupts off,
    /// right after `get` has found nothing, so that what kept `get` from it keeps this from it, too.
    #[inline(always)]
    #[must_use]
    pub fn is_busy(&self, task: Typed) -> bool {
        if ARGS_STORAGE_GET_RECUR.load() != ABSENT {
            return false;
        }
        let map = ptr::from_ref(self).cast_mut().cast::<c_void>();
        // SAFETY: the map is one of task storage.
        let result = unsafe { bpf_task_storage_delete(map, task.as_ptr().cast_mut().cast()) };
        result == -EBUSY
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
