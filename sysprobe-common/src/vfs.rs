//! Storage as processes see it: kinds of operations, statistics per cgroup, calls in progress, and reasons
//! why a call may be lost.

pub mod pseudo;
pub mod syscall;

use crate::operation::OperationStats;

/// The kind of a call. Its name is the value of the `operation` label.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    Read = 0,
    Write = 1,
    /// `fsync`, `fdatasync`, `sync_file_range`, `msync`.
    Fsync = 2,
    /// An open that found the file.
    Open = 3,
    /// A call that creates a name: an open that creates the file, `mkdir`, `mknod`, `link`, `symlink`,
    /// `rename`.
    Create = 4,
    /// A call that removes a name: `unlink`, `rmdir`.
    Unlink = 5,
    /// A major page fault: mapped data is read from storage while the task waits.
    Fault = 6,
}

impl Operation {
    pub const COUNT: usize = 7;
    pub const ALL: [Self; Self::COUNT] =
        [Self::Read, Self::Write, Self::Fsync, Self::Open, Self::Create, Self::Unlink, Self::Fault];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Fsync => "fsync",
            Self::Open => "open",
            Self::Create => "create",
            Self::Unlink => "unlink",
            Self::Fault => "fault",
        }
    }

    /// Its bit in [`Call::operations`].
    #[must_use]
    pub const fn bit(self) -> u32 {
        1 << self as u32
    }

    /// Whether calls of this kind move bytes.
    #[must_use]
    pub const fn moves_bytes(self) -> bool {
        matches!(self, Self::Read | Self::Write)
    }
}

/// The number of system calls of any kind that a CPU has entered, in a cache line of its own.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entered {
    pub calls: u64,
    pub pad: [u64; 7],
}

/// The number of shards for reads and writes. The other operations are rarer, so all CPUs share theirs.
pub const SHARDS: usize = 4;

/// The statistics of one slot.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VfsStats {
    /// Reads and writes, by shard: see `shard`.
    pub transfers: [[OperationStats; 2]; SHARDS],
    /// The other operations, in their order.
    pub others: [OperationStats; Operation::COUNT - 2],
}

impl VfsStats {
    /// The statistics of an operation that the CPUs of a shard add to.
    #[inline]
    pub fn of_mut(&mut self, operation: Operation, shard: u32) -> Option<&mut OperationStats> {
        let number = operation as usize;
        match number.checked_sub(2) {
            Some(other) => self.others.get_mut(other),
            None => self.transfers.get_mut(shard as usize % SHARDS)?.get_mut(number),
        }
    }

    /// All shards of an operation.
    pub fn of(&self, operation: Operation) -> impl Iterator<Item = &OperationStats> {
        let number = operation as usize;
        let shards = self.transfers.iter().filter_map(move |shard| shard.get(number));
        shards.chain(number.checked_sub(2).and_then(|other| self.others.get(other)))
    }

    pub fn all_mut(&mut self) -> impl Iterator<Item = &mut OperationStats> {
        self.transfers.iter_mut().flatten().chain(&mut self.others)
    }

    pub fn all(&self) -> impl Iterator<Item = &OperationStats> {
        self.transfers.iter().flatten().chain(&self.others)
    }
}

/// The outermost call that a task is in. Calls within it (an overlay's into the file system below, the flush
/// of a synchronous write) are part of it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// The call's position on the task's stack; 0 without a call. Deeper calls have lower addresses.
    pub frame: u64,
    /// The start time in `CLOCK_MONOTONIC`.
    pub start: u64,
    /// The address of the name, for a call that may end without a file; or of the request, for libaio.
    pub name: u64,
    /// The directory that the name is relative to.
    pub directory: i32,
    /// The operations that it counts as: bits of [`Operation::bit`].
    pub operations: u32,
    /// The number of calls that have begun deeper on the stack since.
    pub nested: u32,
    /// Always 0.
    pub pad: u32,
}

impl Call {
    pub const NONE: Self =
        Self { frame: 0, start: 0, name: 0, directory: 0, operations: 0, nested: 0, pad: 0 };
}

/// A call in task storage, with the slot of the cgroup that the task was last seen in.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TaskCall {
    pub call: Call,
    pub cgroup: u64,
    pub slot: u32,
    /// The lower half of `slot::room::CHANGES` when the slot was looked up.
    pub changes: u32,
}

/// An asynchronous request, from its submission to its completion.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Started {
    /// The start time in `CLOCK_MONOTONIC`.
    pub start: u64,
    /// The owner that submitted it: a cgroup's id, [`crate::cgroup::KERNEL`], or 0 if it could not be read.
    /// Its slot is looked up at the end, because a cgroup may be deleted before then.
    pub owner: u64,
    /// A bit of [`Operation::bit`].
    pub operations: u32,
    /// Always 0.
    pub pad: u32,
}

/// The number of asynchronous requests that may be in progress on the node: as many as fast devices have in
/// flight.
pub const STARTED: u32 = 4096;

const _: () = assert!(size_of::<Started>() == 24);
const _: () = assert!(size_of::<Call>() == 40 && size_of::<TaskCall>() == 56);

/// Why a call was lost or could not be attributed. One counter each, in lanes.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VfsLoss {
    /// A call on a file ended whose beginning was not seen: it is older than the agent, or the kernel skipped
    /// a run of the program. Counted only where the end still has the file. Also an asynchronous request that
    /// found no room.
    BeginningMissed = 0,
    /// The end of a call was missed. This shows when the task begins another call at the same position on the
    /// stack, or when a request's memory is reused. Calls that were taken for parts of it meanwhile count as
    /// well.
    EndMissed = 1,
    /// No room for another task's call.
    TaskStorageFull = 2,
    /// No free slot for a new cgroup: its calls are charged to `unknown`.
    NoFreeSlot = 3,
    /// A kernel structure between the task and its cgroup could not be read.
    UnreadableCgroup = 4,
}

impl VfsLoss {
    pub const COUNT: u32 = 5;
    pub const ALL: [Self; Self::COUNT as usize] = [
        Self::BeginningMissed,
        Self::EndMissed,
        Self::TaskStorageFull,
        Self::NoFreeSlot,
        Self::UnreadableCgroup,
    ];

    /// The value of the `reason` label.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::BeginningMissed => "beginning_missed",
            Self::EndMissed => "end_missed",
            Self::TaskStorageFull => "task_storage_full",
            Self::NoFreeSlot => "no_free_slot",
            Self::UnreadableCgroup => "unreadable_cgroup",
        }
    }
}
