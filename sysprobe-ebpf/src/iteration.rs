//! Going over what tasks have open (`iter/task_file`).

use core::ffi::c_void;

use aya_ebpf::helpers::generated::bpf_sock_from_file;

use crate::kernel::Typed;
use crate::socket::of_file;

/// The members of `bpf_iter__task_file` that are used.
#[repr(C)]
struct FileIteration {
    meta: u64,
    task: *const u8,
    descriptor: u32,
    file: *const u8,
}

/// A task and the socket that it has open, if it is one.
///
/// # Safety
///
/// `context` is that of a program of this kind.
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
    // SAFETY: the verifier checks the argument; what comes back is a typed pointer or null.
    let opened = unsafe { bpf_sock_from_file(file.cast_mut().cast()) };
    if opened.is_null() {
        return None;
    }
    // SAFETY: not null, so they are a typed task and a typed socket.
    let (task, opened) = unsafe { (Typed::new(task), Typed::new(opened.cast_const().cast())) };
    Some((task, of_file(opened)?))
}
