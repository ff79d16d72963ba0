//! The receive path: the points between a network device and the reader, statistics per cgroup and protocol,
//! the record of a socket, and reasons why an observation may be lost.

use crate::hist::Times;

pub mod slow;

/// A point on the receive path. A stage is the time from one observable point to the next.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Point {
    /// The packet passes its first device on this machine.
    Device = 0,
    /// IP receives the packet.
    Ip = 1,
    /// The connection or the datagram socket receives it.
    Transport = 2,
    /// The data becomes readable, and waiting tasks are notified.
    Ready = 3,
    /// The reader becomes runnable.
    Wakeup = 4,
    /// The reader's wait for a CPU is over. After several waits, this is `Wakeup` plus their sum, and the
    /// time between them belongs to the next stage.
    Run = 5,
    /// The first byte has been copied to the reader.
    Read = 6,
}

impl Point {
    pub const ALL: [Self; 7] =
        [Self::Device, Self::Ip, Self::Transport, Self::Ready, Self::Wakeup, Self::Run, Self::Read];
    /// The number of stages if all points are observable.
    pub const STAGES: usize = Self::ALL.len() - 1;

    /// The point's bit in a set of points.
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

/// The cgroup and the protocol that a slot belongs to.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The reader's cgroup, [`crate::cgroup::KERNEL`], or 0 if it could not be read.
    pub cgroup: u64,
    /// A [`Protocol`] as a number.
    pub protocol: u32,
    /// Always 0.
    pub pad: u32,
}

const _: () = assert!(size_of::<Key>() == 16);

/// The statistics of one slot. The histograms are added to atomically, and their 32-bit counters wrap.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RxpathStats {
    /// The protocol's number plus 1; 0 while the slot is empty.
    pub protocol: u32,
    /// The observable points: bits of [`Point::bit`].
    pub points: u32,
    /// By the point that ends a stage. The first point ends none.
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

/// The oldest unread data of a socket.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unread {
    /// When the data passed each point, in `CLOCK_MONOTONIC`; 0 for not yet. The last ones are stored here
    /// only to be accounted for: the verifier does not track values in maps, and so does not follow each path
    /// of the reader's code through the accounting.
    pub timestamps: [u64; Point::ALL.len()],
    /// TCP: the sequence number of its first byte; without unread data that is followed, of the data that the
    /// last read left. UDP: the number of datagrams that will be read before it.
    pub position: u64,
    /// 1 if there is unread data. The program that clears it accounts for the data, because several tasks may
    /// read from a datagram socket at the same time.
    pub waits: u64,
    /// The number of packets that it stands for, itself included.
    pub weight: u64,
}

impl Unread {
    pub const NONE: Self = Self { timestamps: [0; Point::ALL.len()], position: 0, waits: 0, weight: 0 };

    /// Whether the data is readable.
    #[must_use]
    pub const fn is_ready(&self) -> bool {
        self.timestamps[Point::Ready as usize] != 0
    }
}

/// Words that the agent sets to select packets: indices into `RXPATH_SHARE`.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShareWord {
    /// How many bits of a hash must be 0 for its flow or packet to be followed.
    Bits = 0,
    /// A followed packet stands for two to the power of this number. It is higher than `Bits` where packets
    /// are sampled in time as well.
    WeightBits = 1,
    /// A [`Phase`].
    Phase = 2,
    /// A time in `CLOCK_MONOTONIC`. Data that arrived before it may have been read while the programs were
    /// off.
    Since = 3,
    /// When packets at devices were last recorded anew, in `CLOCK_MONOTONIC`.
    Begun = 4,
}

impl ShareWord {
    pub const COUNT: usize = 5;
}

/// The phase of sampling in time.
#[repr(u64)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Packets at devices are recorded.
    Noting = 0,
    /// No new packets are recorded; recorded ones are followed to their reader.
    Reading = 1,
    /// Packets are neither recorded nor followed.
    Paused = 2,
}

/// Why an observation was lost or could not be attributed. One counter each, in lanes.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RxpathLoss {
    /// The packet was not seen at a device.
    NoDevice = 0,
    /// No memory for a socket's record.
    NoMemory = 1,
    /// No free slot for a new cgroup: charged to `unknown`.
    NoFreeSlot = 2,
    /// A kernel structure between the task and its cgroup could not be read.
    UnreadableCgroup = 3,
    /// The ring buffer for slow requests was full.
    SlowRingFull = 4,
    /// The packet was seen at a device, but a newer packet has overwritten its entry.
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
