//! The network beside TCP: datagrams and dropped packets per cgroup, and reasons why a number may be lost.

use crate::traffic::{Family, Traffic};

/// The protocol of a socket, except TCP.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Udp = 0,
    /// ICMP of IPv4 and of IPv6.
    Icmp = 1,
    Other = 2,
}

impl Protocol {
    pub const COUNT: usize = 3;
    pub const ALL: [Self; Self::COUNT] = [Self::Udp, Self::Icmp, Self::Other];

    /// The value of the `protocol` label.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Icmp => "icmp",
            Self::Other => "other",
        }
    }
}

/// The statistics of one slot. All members are added to atomically.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetStats {
    /// By protocol and family. A datagram counts as received when a process reads it.
    pub traffic: [[Traffic; Family::COUNT]; Protocol::COUNT],
}

impl NetStats {
    pub const ZERO: Self = Self { traffic: [[Traffic::ZERO; Family::COUNT]; Protocol::COUNT] };
}

/// The owner of dropped packets, and the kernel's drop reason (`enum skb_drop_reason`).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DropKey {
    /// A cgroup's id, [`crate::cgroup::KERNEL`] for packets without a socket, or 0 if it is not known.
    pub cgroup: u64,
    pub reason: u32,
    pub pad: u32,
}

/// The statistics of one key.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DropStats {
    pub packets: u64,
    /// The key's reason, set with the first drop.
    pub reason: u32,
    pub pad: u32,
}

impl DropStats {
    pub const ZERO: Self = Self { packets: 0, reason: 0, pad: 0 };
}

/// The record of a socket: its owner, as in `DropKey`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Socket {
    pub owner: u64,
}

/// The arguments of a call, kept until it returns, where the hook at the return does not have them.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The address of the `struct sock`.
    pub socket: u64,
    pub flags: u32,
    pub pad: u32,
}

/// Why a number was lost or could not be attributed. One counter each, in lanes.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetLoss {
    /// No memory for a socket's record.
    NoMemory = 0,
    /// No free slot: charged to `unknown`.
    NoFreeSlot = 1,
    /// A kernel structure between the task and its cgroup could not be read.
    UnreadableCgroup = 2,
    /// The table of calls in progress was full.
    CallTableFull = 3,
    /// A call returned, but the program at its return did not run.
    EndMissed = 4,
}

impl NetLoss {
    pub const COUNT: u32 = 5;
    pub const ALL: [Self; Self::COUNT as usize] =
        [Self::NoMemory, Self::NoFreeSlot, Self::UnreadableCgroup, Self::CallTableFull, Self::EndMissed];

    /// The value of the `reason` label.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::NoMemory => "no_memory",
            Self::NoFreeSlot => "no_free_slot",
            Self::UnreadableCgroup => "unreadable_cgroup",
            Self::CallTableFull => "call_table_full",
            Self::EndMissed => "end_missed",
        }
    }
}
