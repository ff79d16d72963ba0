//! The receive path: the points that what is received passes on its way to its reader, what is kept per
//! cgroup and protocol, what is remembered of a socket, and the ways a measurement can be lost.

use crate::hist::Times;

pub mod slow;

/// A point on the way. A stage is the time from one point to the next that can be seen.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Point {
    /// The first device of this machine that the packet came through.
    Device = 0,
    /// The network layer has it.
    Ip = 1,
    /// So has the connection, or the socket of datagrams.
    Transport = 2,
    /// It may be read, and the tasks that wait for it are told.
    Ready = 3,
    /// The reader is runnable.
    Wakeup = 4,
    /// The reader has waited for a CPU. Where it did so several times before it read, this is so much after
    /// `Wakeup` as all of them took, and the time between them belongs to the next stage.
    Run = 5,
    /// The first byte was copied.
    Read = 6,
}

impl Point {
    pub const ALL: [Self; 7] =
        [Self::Device, Self::Ip, Self::Transport, Self::Ready, Self::Wakeup, Self::Run, Self::Read];
    /// How many stages there are if all points can be seen.
    pub const STAGES: usize = Self::ALL.len() - 1;

    /// Its bit in a set of points.
    #[must_use]
    pub const fn bit(self) -> u32 {
        1 << self as u32
    }
}

#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    Tcp = 0,
    Udp = 1,
}

impl Protocol {
    pub const COUNT: u32 = 2;
    pub const ALL: [Self; Self::COUNT as usize] = [Self::Tcp, Self::Udp];

    /// The value of the `protocol` label.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }
}

/// Whose numbers a slot holds.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The reader's cgroup, [`crate::cgroup::KERNEL`], or 0 if it could not be read.
    pub cgroup: u64,
    /// As a number.
    pub protocol: u32,
    /// Always 0.
    pub pad: u32,
}

const _: () = assert!(size_of::<Key>() == 16);

/// What a slot holds. All is added to atomically. The 32-bit numbers wrap.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RxpathStats {
    /// One more than the number of its protocol, 0 while there is nothing.
    pub protocol: u32,
    /// The points that can be seen: bits of [`Point::bit`].
    pub points: u32,
    /// By the point that a stage ends with; there is none that ends with the first.
    pub stages: [Times; Point::STAGES],
    pub total: Times,
}

impl RxpathStats {
    pub const ZERO: Self =
        Self { protocol: 0, points: 0, stages: [Times::ZERO; Point::STAGES], total: Times::ZERO };

    /// The number of the stage that ends with a point.
    #[must_use]
    pub const fn stage_to(point: Point) -> Option<usize> {
        (point as usize).checked_sub(1)
    }
}

/// The first of what a socket has received and no task has read.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unread {
    /// When it passed each point, in `CLOCK_MONOTONIC`; 0 for not yet. The last ones are only set to be
    /// booked: of what lies in a map the verifier does not keep track, and would else go every way of the
    /// reader through all that is booked.
    pub moments: [u64; Point::ALL.len()],
    /// TCP: the sequence number of its first byte. UDP: how many datagrams will be read before it.
    pub position: u64,
    /// 1 if there is something. What takes it away books it: nothing keeps the readers of datagrams apart.
    pub waits: u64,
    /// How many it stands for, itself included.
    pub weight: u64,
}

impl Unread {
    pub const NONE: Self = Self { moments: [0; Point::ALL.len()], position: 0, waits: 0, weight: 0 };

    /// Whether it may be read.
    #[must_use]
    pub const fn is_ready(&self) -> bool {
        self.moments[Point::Ready as usize] != 0
    }
}

/// What the agent says of the packets that are followed, by its place in `RXPATH_SHARE`.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShareWord {
    /// How many bits of a hash must be 0 for what it belongs to to be followed.
    Bits = 0,
    /// What is followed stands for two to the power of this many packets: more than the hash says where
    /// packets are followed a part of the time.
    WeightBits = 1,
    /// A [`Phase`].
    Phase = 2,
    /// In `CLOCK_MONOTONIC`: whatever came before may have been read while the programs were off.
    Since = 3,
}

impl ShareWord {
    pub const COUNT: usize = 4;
}

/// What is done about packets, where they are followed a part of the time.
#[repr(u64)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// What comes through a device is noted.
    Noting = 0,
    /// Nothing is, but what has been noted is followed to its reader.
    Reading = 1,
    /// Nothing is looked at.
    Paused = 2,
}

/// Why a measurement was lost or could not be attributed. One counter each, shared by all CPUs.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RxpathLoss {
    /// The packet was not seen at a device.
    NoDevice = 0,
    /// There was no memory to remember a socket.
    NoMemory = 1,
    /// No free slot for a new cgroup: charged to `unknown`.
    NoFreeSlot = 2,
    /// A member on the way from the task to its cgroup could not be read.
    UnreadableCgroup = 3,
    /// A command asked for what takes long, and there was too much of it.
    SlowRingFull = 4,
    /// The packet was seen at a device, but another one that came since has taken its place.
    ArrivalOverwritten = 5,
}

impl RxpathLoss {
    pub const COUNT: u32 = 6;
    pub const ALL: [Self; Self::COUNT as usize] = [
        Self::NoDevice,
        Self::NoMemory,
        Self::NoFreeSlot,
        Self::UnreadableCgroup,
        Self::SlowRingFull,
        Self::ArrivalOverwritten,
    ];

    /// The value of the `reason` label.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::NoDevice => "no_device",
            Self::NoMemory => "no_memory",
            Self::NoFreeSlot => "no_free_slot",
            Self::UnreadableCgroup => "unreadable_cgroup",
            Self::SlowRingFull => "slow_ring_full",
            Self::ArrivalOverwritten => "arrival_overwritten",
        }
    }
}
