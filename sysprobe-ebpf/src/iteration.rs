//! Iterators, programs that the kernel runs for every object of a kind (`iter/*`): what all of them need,
//! tasks (`iter/task`), and the sockets that tasks have open (`iter/task_file`).

use core::ffi::c_void;

use aya_ebpf::bindings::seq_file;
use aya_ebpf::helpers::generated::{bpf_seq_write, bpf_sock_from_file};

use crate::kernel::Typed;
use crate::socket::of_file;

/// The member of `bpf_iter_meta` that is used.
#[repr(C)]
struct Meta {
    output: *mut seq_file,
}

/// Writes a byte for an object. A read of the iterator's file ends when its buffer is full, so the reader
/// decides how many objects the kernel visits before it may reschedule.
///
/// # Safety
///
/// `context` is that of an iterator.
#[inline(always)]
pub unsafe fn mark(context: *mut c_void) {
    // SAFETY: the caller's promise; the first member of every such context is the meta data.
    let output = unsafe { (**context.cast::<*const Meta>()).output };
    let byte = 0_u8;
    // SAFETY: a typed pointer, and a live byte. If the output is full, the kernel ends the read and calls
    // again.
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
pub unsafe fn task(context: *mut c_void) -> Option<Typed> {
    // SAFETY: the caller's promise.
    let task = unsafe { (*context.cast::<TaskIteration>()).task };
    if task.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    unsafe { mark(context) };
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
pub unsafe fn socket_of_task(context: *mut c_void) -> Option<(Typed, Typed)> {
    // SAFETY: the caller's promise.
    let (task, file) = unsafe {
        let context = context.cast::<FileIteration>();
        ((*context).task, (*context).file)
    };
    if task.is_null() || file.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    unsafe { mark(context) };
    // SAFETY: the verifier checks the argument; the result is a typed pointer or null.
    let opened = unsafe { bpf_sock_from_file(file.cast_mut().cast()) };
    if opened.is_null() {
        return None;
    }
    // SAFETY: not null, so they are a typed task and a typed socket.
    let (task, opened) = unsafe { (Typed::new(task), Typed::new(opened.cast_const().cast())) };
    Some((task, of_file(opened)?))
}
