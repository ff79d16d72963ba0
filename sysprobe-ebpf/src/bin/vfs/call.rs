//! One call, from its beginning to its end. The caller finds the task's call.

use sysprobe_common::vfs::syscall::{Syscall, WORKING};
use sysprobe_common::vfs::{Call, Operation, VfsLoss};
use sysprobe_ebpf::clock::now;
use sysprobe_ebpf::globals;
use sysprobe_ebpf::kernel::Object;
use sysprobe_ebpf::registers::{Arguments, OFF_REGISTER_ARGUMENT_0};

use crate::accounting::lose_several;
use crate::{file, name};

globals!(
    /// From a `vm_fault` to its mapping, and from there to the mapped file.
    OFF_FAULT_MAPPING,
    OFF_MAPPING_FILE,
);

/// What the kernel calls for an asynchronous request. It does not count, because the request is counted when
/// it completes. Inner calls, such as the flush of a synchronous write, are a part of it.
pub(crate) const OF_REQUEST: Call = Call { operations: 1 << 31, ..Call::NONE };

/// The outcome of a call that does not count.
pub(crate) const NOT_COUNTED: (u32, i64) = (0, 0);

/// A 64-bit result.
#[inline(always)]
pub(crate) const fn long(register: u64) -> i64 {
    register.cast_signed()
}

/// A 32-bit result: the upper half of the register is undefined.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the lower half, with its sign")]
pub(crate) const fn int(register: u64) -> i64 {
    register as i32 as i64
}

/// An argument that is a descriptor.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "as the kernel takes it")]
pub(crate) const fn descriptor(register: u64) -> u32 {
    register as u32
}

/// An argument that is the descriptor of a directory, or `AT_FDCWD`.
#[inline(always)]
pub(crate) const fn directory(register: u64) -> i32 {
    descriptor(register).cast_signed()
}

/// The bit of an operation on a file, 0 if the file is not storage.
#[inline(always)]
pub(crate) fn on_file(file: impl Object, operation: Operation) -> u32 {
    if file::is_storage(file) { operation.bit() } else { 0 }
}

/// The same by the file's descriptor.
#[inline(always)]
pub(crate) fn on_descriptor(task: impl Object, descriptor: u32, operation: Operation) -> u32 {
    if file::is_storage_at(task, descriptor) { operation.bit() } else { 0 }
}

/// The same by the descriptor that is a system call's first argument.
#[inline(always)]
pub(crate) fn on_first_argument(task: impl Object, registers: impl Object, operation: Operation) -> u32 {
    let first = registers.u64(&OFF_REGISTER_ARGUMENT_0);
    first.map_or(0, |register| on_descriptor(task, descriptor(register), operation))
}

/// A transfer from one file to another: a read, a write, or both.
#[inline(always)]
pub(crate) fn on_files<A: Object, B: Object>(from: A, to: B) -> u32 {
    on_file(from, Operation::Read) | on_file(to, Operation::Write)
}

/// The bit of an operation on a name, 0 if the name does not lead to storage.
#[inline(always)]
pub(crate) fn on_name(task: impl Object, directory: i32, name: u64, operation: Operation) -> u32 {
    if name::is_storage(task, directory, name) { operation.bit() } else { 0 }
}

/// What a system call does. A name is judged at the end: by then the kernel has paged in the caller's memory,
/// which a program cannot.
#[inline(always)]
pub(crate) fn of_syscall<T: Object>(task: T, syscall: Syscall, arguments: Arguments<T>) -> Call {
    let on = |place, operations| on_argument(task, arguments, place, operations);
    let call = |operations| Call { operations, ..Call::NONE };
    match syscall {
        Syscall::None => Call::NONE,
        Syscall::File { operations, descriptor } => call(on(descriptor, operations)),
        Syscall::Transfer { from, to } => {
            call(on(from, Operation::Read.bit()) | on(to, Operation::Write.bit()))
        }
        // `MS_SYNC` of include/uapi/asm-generic/mman-common.h: without it, `msync` does not wait for storage.
        Syscall::Memory { operations } => call(if arguments.get(2) & 4 == 0 { 0 } else { operations }),
        Syscall::Name { operations, directory: at, name } => {
            let directory =
                if at == WORKING { name::WORKING_DIRECTORY } else { directory(arguments.get(at)) };
            Call { name: arguments.get(name), directory, operations, ..Call::NONE }
        }
    }
}

/// These operations, if the descriptor in an argument is storage.
#[inline(always)]
fn on_argument<T: Object>(task: T, arguments: Arguments<T>, place: u32, operations: u32) -> u32 {
    if file::is_storage_at(task, descriptor(arguments.get(place))) { operations } else { 0 }
}

/// Records a call, unless it is not on storage, or is a part of the call that the task is already in.
#[inline(always)]
pub(crate) fn begin(current: &mut Call, new: Call) {
    if current.frame != 0 {
        if new.frame < current.frame {
            current.nested += 1;
            return;
        }
        forget(current);
    }
    if new.operations != 0 {
        *current = Call { start: now(), ..new };
    }
}

/// Drops a call whose end was missed: the stack has been unwound beyond it.
#[inline(always)]
fn forget(call: &mut Call) {
    lose_several(VfsLoss::EndMissed, 1 + u64::from(call.nested));
    call.frame = 0;
}

/// The call that ends here and its duration, if it is the recorded one. For tasks that are in a call.
#[inline(always)]
pub(crate) fn end(current: &mut Call, frame: u64) -> Option<(Call, u64)> {
    if frame != current.frame {
        return None;
    }
    let call = *current;
    current.frame = 0;
    Some((call, now().saturating_sub(call.start)))
}

/// `VM_FAULT_MAJOR` of `include/linux/mm_types.h`: the kernel had to read data.
const MAJOR: u64 = 4;

/// A page fault in a mapped file. The file is checked at the beginning, because the mapping may be gone at
/// the end.
#[inline(always)]
pub(crate) fn on_fault<T: Object>(fault: T) -> u32 {
    let mapping = fault.follow(&OFF_FAULT_MAPPING);
    let file = mapping.and_then(|mapping| mapping.follow(&OFF_MAPPING_FILE));
    file.map_or(0, |file| on_file(file, Operation::Fault))
}

/// What a fault was: only a major one counts. The kernel releases the mapping while it reads and then repeats
/// the fault, which has nothing left to read.
#[inline(always)]
pub(crate) const fn of_fault(call: &Call, result: u64) -> u32 {
    if result & MAJOR == 0 { 0 } else { call.operations }
}

/// The error in a returned pointer, as by the kernel's `IS_ERR`.
#[inline(always)]
pub(crate) const fn error(pointer: u64) -> Option<i64> {
    if pointer >= 0xffff_ffff_ffff_f000 { Some(pointer.cast_signed()) } else { None }
}

/// `EAGAIN`: `io_uring` first tries to open without blocking, and then has a worker do it (since 5.12).
const NOT_AT_HAND: i64 = -11;

/// What a failed open was.
#[inline(always)]
pub(crate) fn of_failed_open(error: i64, call: &Call, task: impl Object) -> u32 {
    if error == NOT_AT_HAND { 0 } else { on_name(task, call.directory, call.name, Operation::Open) }
}

/// What a successful open was. Its file shows whether it is storage, and whether it is new.
#[inline(always)]
pub(crate) fn of_open(opened: impl Object) -> u32 {
    if !file::is_storage(opened) {
        return 0;
    }
    if file::was_created(opened) { Operation::Create.bit() } else { Operation::Open.bit() }
}
