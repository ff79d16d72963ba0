//! Reads a request: its kind, its device and its timestamp.

use sysprobe_common::block::{self, Operation};
use sysprobe_ebpf::globals;
use sysprobe_ebpf::kernel::{ABSENT, Object};

globals!(
    OFF_BIO_FLAGS,
    OFF_DISK_MAJOR,
    OFF_DISK_MINOR,
    /// Since 5.15; before, the request itself points to its disk.
    OFF_QUEUE_DISK,
    OFF_RQ_BIO,
    OFF_RQ_DISK,
    OFF_RQ_END,
    OFF_RQ_FLAGS,
    OFF_RQ_LENGTH,
    OFF_RQ_QUEUE,
    OFF_RQ_STARTED,
    OFF_RQ_STATE,
    /// Bit numbers.
    BIT_FUA,
    /// Before 6.12 there is no enumerator for it.
    BIT_IO_STAT,
    BIT_PREFLUSH,
);

/// `REQ_OP_MASK`: the lowest byte of the flags is the operation (`enum req_op`).
const OPERATION: u32 = 0xff;
/// `REQ_OP_DISCARD`.
const DISCARD: u32 = 3;
/// Operations from this one on are commands that a driver passes through. They do not access stored data.
const PASSED_THROUGH: u32 = 32;

/// A request that counts.
#[derive(Clone, Copy)]
pub(crate) struct Request<T> {
    pub(crate) object: T,
    /// Its first bio.
    pub(crate) bio: T,
    flags: u32,
}

/// `None` for a request that is no task's: a driver's command, or the flush that the block layer makes on
/// behalf of several requests.
#[inline(always)]
pub(crate) fn read<T: Object>(object: T) -> Option<Request<T>> {
    let flags = object.u32(&OFF_RQ_FLAGS)?;
    if flags & OPERATION >= PASSED_THROUGH {
        return None;
    }
    let bio = object.follow(&OFF_RQ_BIO)?;
    if bio.address() == 0 {
        return None;
    }
    Some(Request { object, bio, flags })
}

/// Whether a bio's request may be done in steps (block/blk-flush.c): a flush, the data, a flush. A kernel
/// thread inserts it again for its data, and it ends twice: for its data and as a whole. Meanwhile the
/// request itself has lost the flags.
#[inline(always)]
pub(crate) fn takes_steps(bio: impl Object) -> bool {
    let bits = 1 << (BIT_PREFLUSH.load() & 31) | 1 << (BIT_FUA.load() & 31);
    bio.u32(&OFF_BIO_FLAGS).is_some_and(|flags| flags & bits != 0)
}

/// A device's number, 0 if it has none.
#[inline(always)]
pub(crate) fn device(disk: impl Object) -> u32 {
    let major = disk.u32(&OFF_DISK_MAJOR).unwrap_or(0);
    block::device(major, disk.u32(&OFF_DISK_MINOR).unwrap_or(0))
}

impl<T: Object> Request<T> {
    /// Whether the request is complete after this many bytes.
    #[inline(always)]
    pub(crate) fn ends_with(&self, bytes: u32) -> bool {
        self.object.u32(&OFF_RQ_LENGTH).unwrap_or(0) <= bytes
    }

    /// Whether the request has the block layer's own handler (`end_io`), so that its end is only a step.
    #[inline(always)]
    pub(crate) fn is_step(&self) -> bool {
        self.object.u64(&OFF_RQ_END).unwrap_or(0) != 0
    }

    /// The kernel's timestamp of its beginning, if there is one. A queue without statistics (`queue/iostats`)
    /// sets none: the value is 0 then or, in recent kernels, left over from an earlier request.
    #[inline(always)]
    pub(crate) fn started(&self) -> u64 {
        if BIT_IO_STAT.load() != ABSENT {
            let state = self.object.u32(&OFF_RQ_STATE).unwrap_or(0);
            if state & 1 << (BIT_IO_STAT.load() & 31) == 0 {
                return 0;
            }
        }
        self.object.u64(&OFF_RQ_STARTED).unwrap_or(0)
    }

    /// The kinds of the kernel's own statistics, except for the flush.
    #[inline(always)]
    pub(crate) fn operation(&self, flush: bool) -> Operation {
        match self.flags & OPERATION {
            DISCARD => Operation::Discard,
            _ if flush => Operation::Flush,
            operation if operation & 1 == 0 => Operation::Read,
            _ => Operation::Write,
        }
    }

    #[inline(always)]
    pub(crate) fn disk(&self) -> Option<T> {
        if OFF_RQ_DISK.load() == ABSENT {
            return self.object.follow(&OFF_RQ_QUEUE)?.follow(&OFF_QUEUE_DISK);
        }
        self.object.follow(&OFF_RQ_DISK)
    }
}
