//! System calls at their beginning and end, for kernels whose functions cannot be hooked. What `io_uring` does is no system
//! call of its own and stays unseen here, as do the calls of 32-bit programs, whose numbers mean something else.

use aya_ebpf::btf_maps::Array;
use aya_ebpf::macros::btf_map;
use sysprobe_common::vfs::syscall::{Syscall, TABLE};
use sysprobe_common::vfs::{Call, Operation};
use sysprobe_ebpf::kernel::Object;
use sysprobe_ebpf::registers::{Arguments, OFF_REGISTER_SYSCALL};
use sysprobe_ebpf::settings;

use crate::file::Opened;
use crate::{Task, begin, call, current, end, file, name};

settings!(
    /// Where a task says that it is in a call of a 32-bit program, and the bit that says so.
    OFF_TASK_COMPAT,
    CFG_COMPAT,
);

/// A task is in one system call at a time: any address does.
const FRAME: u64 = 1;

/// What each call does, by its number. The agent fills it.
#[btf_map]
static VFS_SYSCALLS: Array<u32, TABLE> = Array::new();

#[inline(always)]
pub(crate) fn enter(registers: Task, number: u64) {
    let Some(code) = what(number) else { return };
    let task = current();
    let is_compat = task.u32(&OFF_TASK_COMPAT).unwrap_or(0) & CFG_COMPAT.load() != 0;
    // Decoded where it is matched: between the two the compiler moves parts that nobody has set, which verifiers refuse.
    let call = if is_compat {
        Call::NONE
    } else {
        call::of_syscall(task, Syscall::decode(code), Arguments::of(registers))
    };
    begin(task, Call { frame: FRAME, ..call });
}

#[inline(always)]
pub(crate) fn exit(registers: Task, result: i64) {
    // The number's lower half on x86-64, all of it on arm64, where the verifier refuses to read beyond.
    let number = registers.u32(&OFF_REGISTER_SYSCALL).map(u64::from);
    if number.and_then(what).is_some() {
        let task = current();
        end(task, FRAME, |call| conclude(task, call, result));
    }
}

/// Opens return a descriptor, which leads to the file. What other calls do with names, the names say.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a descriptor")]
fn conclude(task: Task, call: &Call, result: i64) -> (u32, i64) {
    if call.operations != Operation::Open.bit() {
        let counts = call.name == 0 || name::is_storage(task, call.directory, call.name);
        return (if counts { call.operations } else { 0 }, result);
    }
    if result < 0 {
        return (call::of_failed_open(result, call, task), result);
    }
    let operations = match file::of_descriptor(task, result as u32) {
        Some(Opened::Typed(file)) => call::of_open(file),
        Some(Opened::Untyped(file)) => call::of_open(file),
        None => 0,
    };
    (operations, 0)
}

/// `Syscall::encode` of a call, if it is one of storage's.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "beyond the table is beyond the table")]
fn what(number: u64) -> Option<u32> {
    VFS_SYSCALLS.get(number as u32).copied().filter(|code| *code != 0)
}
