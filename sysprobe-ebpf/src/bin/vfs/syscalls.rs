//! System calls at entry and exit, for kernels whose functions cannot be hooked. Requests of `io_uring` are
//! not system calls; see `asynchronous.rs`. Calls of 32-bit programs are not seen, because their numbers have
//! other meanings.

use aya_ebpf::bindings::BPF_F_MMAPABLE;
use aya_ebpf::btf_maps::Array;
use aya_ebpf::helpers::generated::bpf_get_smp_processor_id;
use aya_ebpf::macros::btf_map;
use sysprobe_common::vfs::syscall::{Syscall, TABLE};
use sysprobe_common::vfs::{Call, Entered, Operation};
use sysprobe_ebpf::globals;
use sysprobe_ebpf::kernel::Object;
use sysprobe_ebpf::registers::{Arguments, OFF_REGISTER_SYSCALL};

use crate::file::Opened;
use crate::{Task, begin, call, current, end, file, name};

globals!(
    /// The task's flags, and the bit for a system call of a 32-bit program.
    OFF_TASK_COMPAT,
    CFG_COMPAT,
);

/// What each call does, by its number. Filled by the agent.
#[btf_map]
static VFS_SYSCALLS: Array<u32, TABLE> = Array::new();
/// By CPU. If the rate is too high, the agent detaches the programs for a while. Sized by the agent.
#[btf_map]
static VFS_ENTERED: Array<Entered, 1, { BPF_F_MMAPABLE as usize }> = Array::new();
/// The number of the current period in which the programs are attached, never 0. A call from an earlier
/// period is over, or nearly.
#[btf_map]
static VFS_TURN: Array<u64, 1, { BPF_F_MMAPABLE as usize }> = Array::new();

#[inline(always)]
pub(crate) fn enter(registers: Task, number: u64) {
    count();
    let Some(code) = what(number) else { return };
    let task = current();
    let is_compat = task.u32(&OFF_TASK_COMPAT).unwrap_or(0) & CFG_COMPAT.load() != 0;
    // Decoded where it is matched: otherwise the compiler copies uninitialised parts of the value, which
    // verifiers refuse.
    let call = if is_compat {
        Call::NONE
    } else {
        call::of_syscall(task, Syscall::decode(code), Arguments::of(registers))
    };
    begin(task, Call { frame: frame(), ..call });
}

#[inline(always)]
pub(crate) fn exit(registers: Task, result: i64) {
    // The lower half of the number on x86-64, and the whole number on arm64, where the verifier refuses a
    // longer read.
    let number = registers.u32(&OFF_REGISTER_SYSCALL).map(u64::from);
    if number.and_then(what).is_some() {
        let task = current();
        end(task, frame(), |call| conclude(task, call, result));
    }
}

/// Not atomic, because whatever interrupts this makes no system calls.
#[inline(always)]
fn count() {
    // SAFETY: the helper only returns a number.
    let cpu = unsafe { bpf_get_smp_processor_id() };
    if let Some(entered) = VFS_ENTERED.get_ptr_mut(cpu) {
        // SAFETY: the pointer is into the map's memory and stays valid while the program runs.
        let entered = unsafe { &mut *entered };
        entered.calls = entered.calls.wrapping_add(1);
    }
}

/// A task is in one system call at a time, so a number suffices instead of a position on the stack. That of
/// the period tells calls of an earlier one apart.
#[inline(always)]
fn frame() -> u64 {
    // SAFETY: the pointer is into the map's memory; the agent writes to it, so the compiler must not keep it.
    VFS_TURN.get_ptr(0).map_or(0, |turn| unsafe { turn.read_volatile() })
}

/// What a call did, and its result. An open returns a descriptor, which leads to the file. Other calls on
/// names are judged by the name.
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

/// `Syscall::encode` of a call, if it is a storage call.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "beyond the table is beyond the table")]
fn what(number: u64) -> Option<u32> {
    VFS_SYSCALLS.get(number as u32).copied().filter(|code| *code != 0)
}
