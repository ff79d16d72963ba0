//! What a request is: its kind, its device, and what it is remembered by.

use sysprobe_common::block::{self, Operation};
use sysprobe_ebpf::kernel::Object;
use sysprobe_ebpf::settings;

settings!(
    OFF_BIO_FLAGS,
    OFF_DISK_MAJOR,
    OFF_DISK_MINOR,
    /// 5.15- ; before, the request itself knows its disk.
    OFF_QUEUE_DISK,
    OFF_RQ_BIO,
    OFF_RQ_DISK,
    OFF_RQ_END,
    OFF_RQ_FLAGS,
    OFF_RQ_LENGTH,
    OFF_RQ_QUEUE,
    OFF_RQ_STARTED,
    OFF_RQ_STATE,
    /// Numbers of bits.
    BIT_FUA,
    /// Before 6.12 no enumerator tells it.
    BIT_IO_STAT,
    BIT_PREFLUSH,
);

/// What the agent sets where the kernel has no such member.
const ABSENT: u32 = u32::MAX;
/// `REQ_OP_MASK`: the lowest byte of the flags says what the request asks for (`enum req_op`).
const OPERATION: u32 = 0xff;
/// `REQ_OP_DISCARD`.
const DISCARD: u32 = 3;
/// From here on come commands that a driver passes through. They are no accesses to what is stored.
const PASSED_THROUGH: u32 = 32;

/// A request, as far as it counts.
#[derive(Clone, Copy)]
pub(crate) struct Request<T> {
    pub(crate) object: T,
    /// The first that is in it.
    pub(crate) bio: T,
    flags: u32,
}

/// `None` for a request without any task's data: a driver's command, or the flush that the block layer itself
/// makes for several of those that ask for one.
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

/// Whether a bio's request may have to be done in several steps (block/blk-flush.c): a flush, the data, a
/// flush. It is inserted again for its data, by a kernel thread, and ends once for its data and once as a
/// whole. Meanwhile the request itself has lost the flags.
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
    /// Whether nothing is left of it after so many bytes.
    #[inline(always)]
    pub(crate) fn ends_with(&self, bytes: u32) -> bool {
        self.object.u32(&OFF_RQ_LENGTH).unwrap_or(0) <= bytes
    }

    /// Whether its end is not that of its bios but the block layer's own, while it is done in steps.
    #[inline(always)]
    pub(crate) fn is_step(&self) -> bool {
        self.object.u64(&OFF_RQ_END).unwrap_or(0) != 0
    }

    /// The kernel's stamp of its beginning, if there is one. A queue whose statistics are off
    /// (`queue/iostats`) stamps nothing: there is 0 then or, in recent kernels, what the memory held before.
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

    /// As the kernel's own statistics tell them apart, but for the flush.
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
