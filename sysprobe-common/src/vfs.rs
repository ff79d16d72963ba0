//! Storage as programs see it: the operations that are told apart, what is kept of each per cgroup, the call
//! that a task is in, and the ways a call can be lost.

pub mod pseudo;
pub mod syscall;

use crate::operation::OperationStats;

/// What a call is to the task that makes it. The value of the `operation` label.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    Read = 0,
    Write = 1,
    /// `fsync`, `fdatasync`, `sync_file_range`, `msync`.
    Fsync = 2,
    /// An open that found the file.
    Open = 3,
    /// Whatever makes a name: an open that made the file, `mkdir`, `mknod`, `link`, `symlink`, `rename`.
    Create = 4,
    /// Whatever removes one: `unlink`, `rmdir`.
    Unlink = 5,
    /// A major page fault: what is mapped is read from storage while the task waits.
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

/// How many system calls a CPU has entered so far, whatever they are: in a cache line of its own.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entered {
    pub calls: u64,
    pub pad: [u64; 7],
}

/// How many groups of CPUs add to reads and writes without disturbing each other. What is rarer than those
/// all CPUs share.
pub const SHARDS: usize = 4;

/// What a slot holds.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VfsStats {
    /// Reads and writes, by shard: see `shard`.
    pub transfers: [[OperationStats; 2]; SHARDS],
    /// The other operations, in their order.
    pub others: [OperationStats; Operation::COUNT - 2],
}

impl VfsStats {
    /// Where the CPUs of a shard add to an operation. `None` for no operation at all.
    #[inline]
    pub fn of_mut(&mut self, operation: Operation, shard: u32) -> Option<&mut OperationStats> {
        let number = operation as usize;
        match number.checked_sub(2) {
            Some(other) => self.others.get_mut(other),
            None => self.transfers.get_mut(shard as usize % SHARDS)?.get_mut(number),
        }
    }

    /// All that there is of an operation.
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
    /// Where on the task's stack the call is; 0 without one. What is deeper has a lower address.
    pub frame: u64,
    /// `CLOCK_MONOTONIC` at its beginning.
    pub start: u64,
    /// The address of the name, for a call that may end without a file.
    pub name: u64,
    /// The directory that the name is relative to.
    pub directory: i32,
    /// What it counts as: bits of [`Operation::bit`].
    pub operations: u32,
    /// How many calls have begun deeper on the stack since.
    pub nested: u32,
    /// Always 0.
    pub pad: u32,
}

impl Call {
    pub const NONE: Self =
        Self { frame: 0, start: 0, name: 0, directory: 0, operations: 0, nested: 0, pad: 0 };
}

/// The same in a task's storage, with the slot of the cgroup that the task was last seen in.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TaskCall {
    pub call: Call,
    pub cgroup: u64,
    pub slot: u32,
    /// Always 0.
    pub pad: u32,
}

/// A reading or writing that its caller need not wait for, from its beginning to its completion.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Started {
    /// `CLOCK_MONOTONIC` at its beginning.
    pub start: u64,
    /// The slot of the cgroup whose task began it.
    pub slot: u32,
    /// A bit of [`Operation::bit`].
    pub operations: u32,
}

/// How many of them are remembered at once, of all processes of the node: what fast devices have under way.
pub const STARTED: u32 = 4096;

const _: () = assert!(size_of::<Started>() == 16);
const _: () = assert!(size_of::<Call>() == 40 && size_of::<TaskCall>() == 56);

/// Why a call was lost or could not be attributed. One counter each, shared by all CPUs.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VfsLoss {
    /// A function of a file ended whose beginning was not seen: it is older than the agent, or the kernel
    /// left the program out. Only where the end still knows the file. Or there were too many requests of
    /// `io_uring` and libaio at once.
    BeginningMissed = 0,
    /// The end of a call was not seen, as shows when its task begins another one where it was. What was taken
    /// for a part of it meanwhile counts too.
    EndMissed = 1,
    /// No room for the call of another task.
    TaskStorageFull = 2,
    /// No free slot for a new cgroup: its calls are charged to `unknown`.
    NoFreeSlot = 3,
    /// A member on the way from the task to its cgroup could not be read.
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
