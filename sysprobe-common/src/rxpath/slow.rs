//! What took long, one by one: the record that is sent of each while a command asks for them.

use super::Point;
use crate::sched::Stretch;

/// How many stretches of its CPU come with a record.
pub const STRETCHES_TOLD: usize = 16;
/// The longest name of a thread, with its terminator (`TASK_COMM_LEN`).
pub const NAME_SIZE: usize = 16;
/// Of the ring that they are sent through. A power of two, and whole pages.
pub const RING_BYTES: u32 = 256 << 10;

/// One request, or whatever else was received and read.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Slow {
    /// As in [`super::Unread`], all of them.
    pub moments: [u64; Point::ALL.len()],
    /// Its reader's cgroup, as in [`super::Key`].
    pub owner: u64,
    /// The reader's process (the upper half) and thread.
    pub thread: u64,
    pub name: [u8; NAME_SIZE],
    /// As in a packet of version 6; one of version 4 is mapped. 0 if the socket is not connected.
    pub peer: [u32; 4],
    pub peer_port: u16,
    pub own_port: u16,
    /// A [`super::Protocol`] as a number.
    pub protocol: u32,
    /// The points that can be seen: bits of [`Point::bit`].
    pub points: u32,
    /// On which it was read.
    pub cpu: u32,
    /// When the reader waited for this CPU the last time before it read; both 0 if that is not known.
    pub waited_from: u64,
    pub waited_to: u64,
    /// See [`crate::sched::Timeline`].
    pub clock_offset: u64,
    /// The last of that CPU, the latest first. All 0 where `sched` cannot tell.
    pub stretches: [Stretch; STRETCHES_TOLD],
}

const _: () = assert!(size_of::<Slow>() == 8 * 7 + 8 + 8 + 16 + 16 + 16 + 24 + 32 * STRETCHES_TOLD);
