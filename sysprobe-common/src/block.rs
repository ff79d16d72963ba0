//! The block layer: the kinds of requests that are told apart, what is kept of each per cgroup and device,
//! the request that is on its way, and the ways one can be lost.

use crate::operation::OperationStats;

/// What a request asks of a device. The value of the `operation` label.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    Read = 0,
    /// Also whatever else changes what is stored, such as the writing of zeroes.
    Write = 1,
    Discard = 2,
    /// A flush of the device's cache without data. One with data is a write.
    Flush = 3,
}

impl Operation {
    pub const COUNT: usize = 4;
    pub const ALL: [Self; Self::COUNT] = [Self::Read, Self::Write, Self::Discard, Self::Flush];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Discard => "discard",
            Self::Flush => "flush",
        }
    }

    /// Whether requests of this kind are of a number of bytes.
    #[must_use]
    pub const fn has_bytes(self) -> bool {
        !matches!(self, Self::Flush)
    }
}

/// Whose numbers a slot holds.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// A cgroup's id, [`crate::cgroup::KERNEL`], or 0 if it could not be read.
    pub cgroup: u64,
    /// As the kernel numbers devices: see [`device`].
    pub device: u32,
    /// Always 0.
    pub pad: u32,
}

const _: () = assert!(size_of::<Key>() == 16);

/// The kernel's own number of a device (`MKDEV` of `include/linux/kdev_t.h`).
#[must_use]
pub const fn device(major: u32, minor: u32) -> u32 {
    major << 20 | minor
}

/// `DISK_NAME_LEN` of `include/linux/blkdev.h`.
pub const DISK_NAME: usize = 32;

/// What a slot holds.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockStats {
    /// What the kernel calls the device (`gendisk.disk_name`), zeros behind it; all zero for what stands for
    /// several.
    pub disk: [u8; DISK_NAME],
    /// Nanoseconds of `latency_ns` that passed before the device's driver got the request.
    pub queued_ns: [u64; Operation::COUNT],
    pub operations: [OperationStats; Operation::COUNT],
}

/// A request that is on its way.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// The cgroup that submitted it; see [`Key`].
    pub cgroup: u64,
    /// When it began, in `CLOCK_MONOTONIC`: by the kernel's stamp, or when it was first seen.
    pub begun: u64,
    /// What stands where the kernel's stamp is, which tells it from the next request in the same place: that
    /// one's is later. Merged with an older one it gets the stamp of that.
    pub started: u64,
    /// When the driver got it; 0 before, and of one that is done in steps.
    pub issued: u64,
    /// What has been moved so far.
    pub bytes: u64,
    /// 1 if a part of it failed.
    pub failed: u32,
    /// 1 if it has no data and only flushes.
    pub flush: u32,
}

const _: () = assert!(size_of::<Request>() == 48);

/// Why a request was lost or could not be attributed. One counter each, shared by all CPUs.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockLoss {
    /// The end of a request whose submission was not seen: it is older than the agent, or the kernel left the
    /// program out.
    SubmissionMissed = 0,
    /// The table of requests in flight was full: this one was not remembered.
    InFlightFull = 1,
    /// No free slot for a new cgroup or device: charged to `unknown`.
    NoFreeSlot = 2,
    /// A member on the way from the task to its cgroup could not be read.
    UnreadableCgroup = 3,
    /// It ended before it began: booked with no time at all.
    BackwardsClock = 4,
    /// The end of a request was not seen, and the agent removed it from the table. The agent counts these.
    EndMissed = 5,
}

impl BlockLoss {
    pub const COUNT: u32 = 6;
    pub const ALL: [Self; Self::COUNT as usize] = [
        Self::SubmissionMissed,
        Self::InFlightFull,
        Self::NoFreeSlot,
        Self::UnreadableCgroup,
        Self::BackwardsClock,
        Self::EndMissed,
    ];

    /// The value of the `reason` label.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::SubmissionMissed => "submission_missed",
            Self::InFlightFull => "in_flight_full",
            Self::NoFreeSlot => "no_free_slot",
            Self::UnreadableCgroup => "unreadable_cgroup",
            Self::BackwardsClock => "backwards_clock",
            Self::EndMissed => "end_missed",
        }
    }
}
