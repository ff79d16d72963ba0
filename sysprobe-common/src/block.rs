//! The block layer: kinds of requests, statistics per cgroup and device, requests in flight, and reasons why
//! one may be lost.

use crate::operation::OperationStats;

/// The kind of a request. Its name is the value of the `operation` label.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    Read = 0,
    /// Also other requests that change stored data, such as write zeroes.
    Write = 1,
    Discard = 2,
    /// A cache flush without data. A flush with data counts as a write.
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

    /// Whether requests of this kind have a size in bytes.
    #[must_use]
    pub const fn has_bytes(self) -> bool {
        !matches!(self, Self::Flush)
    }
}

/// The cgroup and the device that a slot belongs to.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// A cgroup's id, [`crate::cgroup::KERNEL`], or 0 if it could not be read.
    pub cgroup: u64,
    /// The kernel's device number; see [`device`].
    pub device: u32,
    /// Always 0.
    pub pad: u32,
}

const _: () = assert!(size_of::<Key>() == 16);

/// The kernel's device number (`MKDEV` of `include/linux/kdev_t.h`).
#[must_use]
pub const fn device(major: u32, minor: u32) -> u32 {
    major << 20 | minor
}

/// `DISK_NAME_LEN` of `include/linux/blkdev.h`.
pub const DISK_NAME: usize = 32;

/// The statistics of one slot.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockStats {
    /// The device's name (`gendisk.disk_name`), padded with zeros. All zeros if the slot stands for several
    /// devices.
    pub disk: [u8; DISK_NAME],
    /// The part of `latency_ns` before the driver got the request, in nanoseconds.
    pub queued_ns: [u64; Operation::COUNT],
    pub operations: [OperationStats; Operation::COUNT],
}

/// A request in flight.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// The cgroup that submitted it; see [`Key`].
    pub cgroup: u64,
    /// Start time in `CLOCK_MONOTONIC`: the kernel's timestamp, or the time when the request was first seen.
    pub begun: u64,
    /// The raw value of the kernel's timestamp (`request.start_time_ns`). The next request at the same
    /// address has a later one. A request that absorbs an older one takes over the older timestamp.
    pub started: u64,
    /// When the driver got it; 0 before that, and for a request that is done in steps.
    pub issued: u64,
    /// Bytes transferred so far.
    pub bytes: u64,
    /// 1 if a part of it failed.
    pub failed: u32,
    /// 1 for a flush without data.
    pub flush: u32,
}

const _: () = assert!(size_of::<Request>() == 48);

/// Why a request was lost or could not be attributed. One counter each, in lanes.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockLoss {
    /// A request ended whose submission was not seen: it is older than the agent, or the kernel skipped a run
    /// of the program.
    SubmissionMissed = 0,
    /// The table of requests in flight was full, so this one was not recorded.
    InFlightFull = 1,
    /// No free slot for a new cgroup or device: charged to `unknown`.
    NoFreeSlot = 2,
    /// A kernel structure between the task and its cgroup could not be read.
    UnreadableCgroup = 3,
    /// The request ended before it began. It is counted with a duration of 0.
    BackwardsClock = 4,
    /// The end of a request was missed, and the agent removed it from the table. The agent counts these.
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
