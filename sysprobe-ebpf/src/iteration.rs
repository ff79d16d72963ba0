//! Iterators, programs that the kernel runs for every object of a kind (`iter/*`): what all of them need,
//! tasks (`iter/task`), and the sockets that tasks have open (`iter/task_file`).

use core::ffi::c_void;

use aya_ebpf::bindings::seq_file;
use aya_ebpf::btf_maps::Array;
use aya_ebpf::helpers::generated::{bpf_seq_write, bpf_sock_from_file};
use sysprobe_common::scan::PART_NS;

use crate::clock::now;
use crate::globals;
use crate::kernel::Typed;
use crate::socket::of_file;

globals!(OFF_SEQ_COUNT);

/// A part looks at the clock at every eighth object, because some machines take microseconds for that.
const OBJECTS_PER_LOOK: u64 = 8;

/// When the current part of a scan ends. All scans of a BPF object have the same, because they never run at
/// the same time.
pub type PartEnd = Array<u64, 1>;

/// The members of `bpf_iter_meta`.
#[repr(C)]
struct Meta {
    output: *mut seq_file,
    session: u64,
    /// The object's number in the scan.
    number: u64,
}

/// Ends the part, and with it the agent's read of the iterator's file, if it has taken long enough. Call it
/// for each object.
///
/// # Safety
///
/// `context` is that of an iterator.
#[inline(always)]
pub unsafe fn end_part_if_due(context: *mut c_void, part_end: &PartEnd) {
    // SAFETY: the caller's promise; the first member of every such context is the meta data.
    let (output, number) = unsafe {
        let meta = *context.cast::<*const Meta>();
        ((*meta).output, (*meta).number)
    };
    // Each read begins with an empty buffer.
    // SAFETY: not null, so it is a typed `seq_file`.
    let is_first = unsafe { Typed::new(output.cast_const().cast()) }.load_u64(&OFF_SEQ_COUNT) == 0;
    if !is_first && number % OBJECTS_PER_LOOK != 0 {
        return;
    }
    let Some(end) = part_end.get_ptr_mut(0) else { return };
    // SAFETY: the pointer is into the map's memory and stays valid while the program runs. One scan at a time
    // uses the element.
    let end = unsafe { &mut *end };
    let now = now();
    if is_first {
        *end = now + PART_NS;
    } else if now < *end {
        return;
    }
    let byte = 0_u8;
    // SAFETY: a typed pointer, and a live byte. The output has room for more than the agent's buffer.
    unsafe { bpf_seq_write(output, (&raw const byte).cast_mut().cast(), 1) };
}

/// The members of `bpf_iter__task` that are used.
#[repr(C)]
struct TaskIteration {
    meta: u64,
    task: *const u8,
}

/// A task; `None` at the end of the iteration.
///
/// # Safety
///
/// `context` is that of an `iter/task` program.
#[inline(always)]
#[must_use]
pub unsafe fn task(context: *mut c_void, part_end: &PartEnd) -> Option<Typed> {
    // SAFETY: the caller's promise.
    let task = unsafe { (*context.cast::<TaskIteration>()).task };
    if task.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    unsafe { end_part_if_due(context, part_end) };
    // SAFETY: not null, so it is a typed task.
    Some(unsafe { Typed::new(task) })
}

/// The members of `bpf_iter__task_file` that are used.
#[repr(C)]
struct FileIteration {
    meta: u64,
    task: *const u8,
    descriptor: u32,
    file: *const u8,
}

/// A task and the socket that it has open; `None` if the file is not a socket.
///
/// # Safety
///
/// `context` is that of an `iter/task_file` program.
#[inline(always)]
#[must_use]
pub unsafe fn socket_of_task(context: *mut c_void, part_end: &PartEnd) -> Option<(Typed, Typed)> {
    // SAFETY: the caller's promise.
    let (task, file) = unsafe {
        let context = context.cast::<FileIteration>();
        ((*context).task, (*context).file)
    };
    if task.is_null() || file.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    unsafe { end_part_if_due(context, part_end) };
    // SAFETY: the verifier checks the argument; the result is a typed pointer or null.
    let opened = unsafe { bpf_sock_from_file(file.cast_mut().cast()) };
    if opened.is_null() {
        return None;
    }
    // SAFETY: not null, so they are a typed task and a typed socket.
    let (task, opened) = unsafe { (Typed::new(task), Typed::new(opened.cast_const().cast())) };
    Some((task, of_file(opened)?))
}
