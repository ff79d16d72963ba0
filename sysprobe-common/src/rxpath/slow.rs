//! Slow requests: the record that is sent for each one while a command asks for them.

use super::Point;
use crate::sched::RunInterval;

/// The number of the CPU's run intervals in a record.
pub const RUN_INTERVALS_TOLD: usize = 16;
/// The longest name of a thread, with its terminator (`TASK_COMM_LEN`).
pub const NAME_SIZE: usize = 16;
/// The size of the ring buffer in bytes: a power of two, and whole pages.
pub const RING_BYTES: u32 = 256 << 10;

/// One request, or any other data that was received and read.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Slow {
    /// As in [`super::Unread`], including the reader's points.
    pub timestamps: [u64; Point::ALL.len()],
    /// The reader's cgroup, as in [`super::Key`].
    pub owner: u64,
    /// The reader's process id (upper half) and thread id (lower half).
    pub thread: u64,
    pub name: [u8; NAME_SIZE],
    /// As in an IPv6 packet; an IPv4 address is mapped. 0 if the socket is not connected.
    pub peer: [u32; 4],
    pub peer_port: u16,
    pub own_port: u16,
    /// A [`super::Protocol`] as a number.
    pub protocol: u32,
    /// The observable points: bits of [`Point::bit`].
    pub points: u32,
    /// The CPU on which it was read.
    pub cpu: u32,
    /// The reader's last wait for this CPU before the read; both 0 if it is not known.
    pub waited_from: u64,
    pub waited_to: u64,
    /// See [`crate::sched::Timeline`].
    pub clock_offset: u64,
    /// The CPU's last run intervals, the latest first. All 0 if `sched` does not know them.
    pub run_intervals: [RunInterval; RUN_INTERVALS_TOLD],
}

const _: () = assert!(size_of::<Slow>() == 8 * 7 + 8 + 8 + 16 + 16 + 16 + 24 + 32 * RUN_INTERVALS_TOLD);
