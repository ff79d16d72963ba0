//! Asynchronous requests of `io_uring` and libaio. Each is kept by the address of the kernel's request, from
//! its submission to its completion, which may run in another task or in an interrupt.
//!
//! A request of `io_uring` is judged again at its completion, when it has its file. A completion without an
//! event (`IOSQE_CQE_SKIP_SUCCESS`) is not seen, so such requests are not recorded.

use aya_ebpf::bindings::BPF_NOEXIST;
use aya_ebpf::btf_maps::HashMap;
use aya_ebpf::macros::btf_map;
use sysprobe_common::vfs::{Call, Operation, STARTED, Started, VfsLoss};
use sysprobe_ebpf::cgroup::owner_of_task;
use sysprobe_ebpf::clock::now;
use sysprobe_ebpf::globals;
use sysprobe_ebpf::kernel::{Address, Object};

use crate::accounting::{Outcome, book, lose, slot_of};
use crate::{call, current, file};

globals!(
    /// 1 where the hooked VFS functions see what `io_uring` does through them.
    CFG_RING_BY_FUNCTION,
    /// The number of parameters of the tracepoint, including the first, which programs do not see.
    CFG_RING_BEGIN_PARAMETERS,
    OFF_KIOCB_FILE,
    /// Valid until the request has its file.
    OFF_RING_DESCRIPTOR,
    OFF_RING_FILE,
    OFF_RING_FLAGS,
    OFF_RING_OPCODE,
    OFF_RING_RESULT,
);

/// By address. Preallocated, because interrupts remove entries.
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

/// `REQ_F_CQE_SKIP` of `include/linux/io_uring_types.h`, by the ABI the same bit as in the submission.
const SKIPS_COMPLETION: u8 = 1 << 6;

/// `REQ_F_FIXED_FILE`, likewise: the file is one that the ring has, and there is no descriptor.
const HAS_FILE_OF_RING: u8 = 1;

/// The tracepoint has `(struct io_kiocb *req)` since 6.3. In 6.0 to 6.2 it has another name and one more
/// parameter, `bool force_nonblock`. Before, it does not identify the request.
const BEGIN_PARAMETERS: u32 = 3;

/// Whether this kernel's tracepoints identify the request.
#[inline(always)]
fn tells_requests_apart() -> bool {
    CFG_RING_BEGIN_PARAMETERS.load() <= BEGIN_PARAMETERS
}

/// `io_uring` accepts a request. A request on a socket is not recorded, because it may wait for ever and fill
/// the map. Whether a registered file is a socket is not known yet.
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

/// `io_uring` has completed a request.
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

/// libaio accepts a request, which has its file already. What the kernel calls for it is a part of the
/// request.
#[inline(always)]
pub(crate) fn aio_begins(request: impl Object, operation: Operation) -> Call {
    if !request.follow(&OFF_KIOCB_FILE).is_some_and(file::is_storage) {
        return Call::NONE;
    }
    begin(request.address(), operation.bit());
    Call { name: request.address(), ..call::OF_REQUEST }
}

/// libaio has accepted a request, or refused it. A refused request never completes, so its entry is removed.
#[inline(always)]
pub(crate) fn aio_submitted(call: &Call, result: i64) -> (u32, i64) {
    if result < 0 {
        forget(call.name);
    }
    call::NOT_COUNTED
}

/// libaio has completed a request of any kind.
#[inline(always)]
pub(crate) fn aio_ends(request: impl Object, result: i64) {
    end(request.address(), result, || request.follow(&OFF_KIOCB_FILE).is_some_and(file::is_storage));
}

/// The operation of a request of `io_uring`, except for those on names; 0 if it is not a storage operation.
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
    note(request, Started { start: now(), owner: owner_of_task(current()), operations, pad: 0 });
}

/// A request without room is counted as lost at its end. The kernel reuses the memory of requests: if there
/// is an entry already, its end was missed.
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

/// `is_storage` checks the file of a request that may be on storage.
#[inline(always)]
fn end(request: u64, result: i64, is_storage: impl FnOnce() -> bool) {
    let Some(started) = VFS_STARTED.get_ptr_mut(request) else {
        if is_storage() {
            lose(VfsLoss::BeginningMissed);
        }
        return;
    };
    // SAFETY: the pointer is into the map's memory and stays valid while the program runs.
    let Started { start, owner, operations, .. } = unsafe { *started };
    forget(request);
    if is_storage() {
        book(slot_of(owner), &Outcome { operations, result, took: now().saturating_sub(start) });
    }
}

#[inline(always)]
#[expect(clippy::let_underscore_must_use, reason = "another may have taken its place")]
fn forget(request: u64) {
    let _ = VFS_STARTED.remove(request);
}
