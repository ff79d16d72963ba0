//! Readings and writings for which their caller need not wait: those of `io_uring` and of libaio. Each is
//! known by the address of what the kernel keeps of it from its beginning to its completion, which another
//! task or an interrupt may come to.
//!
//! Whether `io_uring`'s requests are storage's shows again when they complete: then they have their file. A
//! completion that `io_uring` keeps to itself (`IOSQE_CQE_SKIP_SUCCESS`) is not seen, and nothing is noted of
//! its request.

use aya_ebpf::bindings::BPF_NOEXIST;
use aya_ebpf::btf_maps::HashMap;
use aya_ebpf::macros::btf_map;
use sysprobe_common::vfs::{Call, Operation, STARTED, Started, VfsLoss};
use sysprobe_ebpf::cgroup::id_of_task;
use sysprobe_ebpf::clock::now;
use sysprobe_ebpf::kernel::{Address, Object};
use sysprobe_ebpf::settings;

use crate::booking::{Outcome, book, find_slot, lose};
use crate::{call, current, file};

settings!(
    /// 1 where what `io_uring` has done by functions of the VFS is seen there.
    CFG_RING_BY_FUNCTION,
    /// Parameters of the tracepoint, the first of which programs do not see.
    CFG_RING_BEGIN_PARAMETERS,
    OFF_KIOCB_FILE,
    /// Until the request has its file.
    OFF_RING_DESCRIPTOR,
    OFF_RING_FILE,
    OFF_RING_FLAGS,
    OFF_RING_OPCODE,
    OFF_RING_RESULT,
);

/// By address. Preallocated: interrupts take from it.
#[btf_map]
static VFS_STARTED: HashMap<u64, Started, { STARTED as usize }> = HashMap::new();

/// `IORING_OP_*` of `include/uapi/linux/io_uring.h`.
mod opcode {
    pub(super) const READV: u8 = 1;
    pub(super) const WRITEV: u8 = 2;
    pub(super) const FSYNC: u8 = 3;
    pub(super) const READ_FIXED: u8 = 4;
    pub(super) const WRITE_FIXED: u8 = 5;
    pub(super) const SYNC_FILE_RANGE: u8 = 8;
    pub(super) const READ: u8 = 22;
    pub(super) const WRITE: u8 = 23;
    pub(super) const READV_FIXED: u8 = 60;
    pub(super) const WRITEV_FIXED: u8 = 61;
}

/// `REQ_F_CQE_SKIP` of `include/linux/io_uring_types.h`, by the ABI the same bit as that of the submission.
const SKIPS_COMPLETION: u8 = 1 << 6;

/// `REQ_F_FIXED_FILE`, the same way: the file is one that the ring has, and no descriptor.
const HAS_FILE_OF_RING: u8 = 1;

/// `(struct io_kiocb *req)` since 6.3, and with `(..., bool force_nonblock)` of another name since 6.0.
/// Before that the tracepoint does not tell requests apart.
const BEGIN_PARAMETERS: u32 = 3;

/// Whether this kernel's tracepoints say which request it is.
#[inline(always)]
fn tells_requests_apart() -> bool {
    CFG_RING_BEGIN_PARAMETERS.load() <= BEGIN_PARAMETERS
}

/// `io_uring` takes a request. One on a socket may wait for ever, and would take the room of others.
#[inline(always)]
pub(crate) fn ring_begins(request: Address) {
    if !tells_requests_apart() {
        return;
    }
    let operations = of_opcode(request.load_u8(&OFF_RING_OPCODE));
    let flags = request.load_u8(&OFF_RING_FLAGS);
    if operations == 0 || flags & SKIPS_COMPLETION != 0 {
        return;
    }
    if flags & HAS_FILE_OF_RING != 0 || file::is_storage_at(current(), request.load_u32(&OFF_RING_DESCRIPTOR))
    {
        begin(request.0, operations);
    }
}

/// `io_uring` has done with a request.
#[inline(always)]
pub(crate) fn ring_ends(request: Address) {
    if !tells_requests_apart() {
        return;
    }
    let operations = of_opcode(request.load_u8(&OFF_RING_OPCODE));
    if operations != 0 {
        let result = call::int(request.load_u32(&OFF_RING_RESULT).into());
        end(request.0, result, || request.follow(&OFF_RING_FILE).is_some_and(file::is_storage));
    }
}

/// libaio takes a request; the file is there already. What it calls for it is a part of the request.
#[inline(always)]
pub(crate) fn aio_begins(request: impl Object, operation: Operation) -> Call {
    if !request.follow(&OFF_KIOCB_FILE).is_some_and(file::is_storage) {
        return Call::NONE;
    }
    begin(request.address(), operation.bit());
    Call { name: request.address(), ..call::OF_REQUEST }
}

/// libaio has taken a request, or refused it: then it never completes.
#[inline(always)]
pub(crate) fn aio_submitted(call: &Call, result: i64) -> (u32, i64) {
    if result < 0 {
        forget(call.name);
    }
    call::NOT_COUNTED
}

/// libaio has done with a request, of whatever kind.
#[inline(always)]
pub(crate) fn aio_ends(request: impl Object, result: i64) {
    end(request.address(), result, || request.follow(&OFF_KIOCB_FILE).is_some_and(file::is_storage));
}

/// What `io_uring`'s requests are, but for those on names; 0 for what is none of storage's.
#[inline(always)]
fn of_opcode(code: u8) -> u32 {
    match code {
        opcode::READV | opcode::READ_FIXED | opcode::READ | opcode::READV_FIXED => Operation::Read.bit(),
        opcode::WRITEV | opcode::WRITE_FIXED | opcode::WRITE | opcode::WRITEV_FIXED => Operation::Write.bit(),
        opcode::FSYNC | opcode::SYNC_FILE_RANGE if CFG_RING_BY_FUNCTION.load() == 0 => Operation::Fsync.bit(),
        _ => 0,
    }
}

#[inline(always)]
fn begin(request: u64, operations: u32) {
    let task = current();
    let slot = find_slot(task, id_of_task(task));
    note(request, Started { start: now(), slot, operations });
}

/// What finds no room is missed at its end. The kernel uses the memory of a request again: what is noted of
/// it already has ended without being seen.
#[inline(always)]
fn note(request: u64, started: Started) {
    if VFS_STARTED.insert(request, started, u64::from(BPF_NOEXIST)).is_ok() {
        return;
    }
    if let Some(before) = VFS_STARTED.get_ptr_mut(request) {
        lose(VfsLoss::EndMissed);
        // SAFETY: the pointer is into the map's memory and stays valid while the program runs.
        unsafe { *before = started };
    }
}

/// `is_storage` is asked of requests that storage may have.
#[inline(always)]
fn end(request: u64, result: i64, is_storage: impl FnOnce() -> bool) {
    let Some(started) = VFS_STARTED.get_ptr_mut(request) else {
        if is_storage() {
            lose(VfsLoss::BeginningMissed);
        }
        return;
    };
    // SAFETY: the pointer is into the map's memory and stays valid while the program runs.
    let Started { start, slot, operations } = unsafe { *started };
    forget(request);
    if is_storage() {
        book(slot, &Outcome { operations, result, took: now().saturating_sub(start) });
    }
}

#[inline(always)]
#[expect(clippy::let_underscore_must_use, reason = "another may have taken its place")]
fn forget(request: u64) {
    let _ = VFS_STARTED.remove(request);
}
