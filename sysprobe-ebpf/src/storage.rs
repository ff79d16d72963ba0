//! Storage that the kernel frees with its object: a task (`BPF_MAP_TYPE_TASK_STORAGE`; for tracing programs
//! since 5.13) or a socket (`BPF_MAP_TYPE_SK_STORAGE`; since 5.11). `aya-ebpf` 0.2 lacks the first, and has
//! the second for other kinds of programs only.
//!
//! Storage is charged to the memory cgroup of the process that created the map: the agent's. A failed
//! allocation must harm only the agent's numbers, so no storage is copied along with a socket
//! (`BPF_F_CLONE`): if the copy failed, the kernel would free the new connection (`sk_clone`). A [`Budget`]
//! ends before the memory does.

use core::ffi::c_void;
use core::marker::PhantomData;
use core::ptr;

use aya_ebpf::bindings::BPF_F_NO_PREALLOC;
use aya_ebpf::bindings::bpf_map_type::{BPF_MAP_TYPE_SK_STORAGE, BPF_MAP_TYPE_TASK_STORAGE};
use aya_ebpf::btf_maps::ArrayOfMaps;
use aya_ebpf::helpers::generated::{bpf_sk_storage_get, bpf_task_storage_delete, bpf_task_storage_get};
use sysprobe_common::lanes::place;
use sysprobe_common::storage::{GRANTED, MADE, REFUSED};
use sysprobe_common::tcp::STORAGES;

use crate::counter::{self, Lanes};
use crate::kernel::{ABSENT, Object as _, Typed};
use crate::{GOLDEN, globals};

globals!(
    /// The number of parameters of the kernel function that looks up task storage in nested programs, too
    /// (6.2).
    ARGS_STORAGE_GET_RECUR,
);

const CREATE: u64 = 1;

const EBUSY: i64 = 16;

/// The kind of object that has the storage. It decides which helper finds it.
pub trait Holder {
    /// # Safety
    ///
    /// As for the kernel's helper: the verifier checks the map, the object and the size of the initial value.
    unsafe fn find(map: *mut c_void, object: *mut c_void, initial: *mut c_void, flags: u64) -> *mut c_void;
}

pub struct Task;
pub struct Socket;

/// Task storage. A new value is allocated: never do so with a run queue's lock held. Before 6.4 the allocator
/// may wake a thread, which needs that lock.
pub type TaskStorage<T> =
    Storage<T, Task, { BPF_MAP_TYPE_TASK_STORAGE as usize }, { BPF_F_NO_PREALLOC as usize }>;

/// Socket storage. No value can be created for a socket that is being freed.
pub type SocketStorage<T> =
    Storage<T, Socket, { BPF_MAP_TYPE_SK_STORAGE as usize }, { BPF_F_NO_PREALLOC as usize }>;

/// The same spread over several maps, by the socket's address.
pub type SpreadStorage<T> = ArrayOfMaps<SocketStorage<T>, { STORAGES.len() }>;

/// The map with a socket's value.
#[inline(always)]
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "the highest bits, of which there are few")]
pub fn storage_of<T>(maps: &SpreadStorage<T>, socket: Typed) -> Option<&SocketStorage<T>> {
    maps.get((key_of(maps, socket) >> (u64::BITS - STORAGES.len().ilog2())) as u32)
}

/// A number that stands for a socket's address, and no other one's. Addresses of sockets are multiples of
/// their size, so they are hashed: the upper bits may be an index.
#[inline(always)]
#[must_use]
pub fn key_of<T>(maps: &SpreadStorage<T>, socket: Typed) -> u64 {
    distance(ptr::from_ref(maps).cast(), socket).wrapping_mul(GOLDEN)
}

/// The distance of a socket from the array of maps. The verifier allows no such arithmetic on a pointer, but
/// the difference of two pointers is a number, and the array is the same in all objects.
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

/// The number of values that an object may create. The agent writes the grant, and programs count what they
/// create.
pub type Budget = Lanes;

/// Whether one more value may be created. This check comes before all other work for a new value. If several
/// CPUs see the last place free at the same time, all of them take it.
#[inline(always)]
#[must_use]
pub fn has_room(budget: &Budget) -> bool {
    let word = |number| budget.get(place(0, number)).copied().unwrap_or(0);
    word(MADE) < word(GRANTED)
}

/// Counts a value for which the budget had no room.
#[inline(always)]
pub fn refuse(budget: &Budget) {
    counter::count(budget, REFUSED);
}

/// A map definition as the loader reads it from `.maps`: each member's type encodes one attribute.
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

    /// Creates a value that starts as `initial`, for an object in which `get` has found none: each call takes
    /// from the budget. `None` if the budget has no room; `lose` is called if the kernel has no memory, or if
    /// the object is being freed.
    #[inline(always)]
    pub fn make(
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
        counter::count_shared(budget, place(0, MADE));
        Some(made)
    }

    /// The same without a budget.
    #[inline(always)]
    pub fn get_or_insert(&self, object: Typed, initial: &mut T) -> Option<*mut T> {
        let initial = ptr::from_mut(initial);
        // All maps share one storage head per object, which the first value creates. If two CPUs create it at
        // the same time, the kernel refuses one of them (`bpf_local_storage_alloc`, EAGAIN), and its second
        // try finds the head.
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
    /// Whether a task that seems to have no value may have one all the same: before 6.2 a look-up finds
    /// nothing while this program interrupts another call on any task's storage on the same CPU.
    ///
    /// A deletion tells the two cases apart by its error. It never deletes anything: call this with
    /// interrupts off, right after `get` has found nothing, so that the same condition applies to both.
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
