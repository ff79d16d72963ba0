//! The network beside TCP: what is kept per cgroup of datagrams, of packets that were dropped, and the ways a
//! number can be lost.

use crate::traffic::{Family, Traffic};

/// What a socket speaks, TCP left out.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Udp = 0,
    /// Of both versions.
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

/// What a slot holds. All is added to atomically.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetStats {
    /// By protocol and family. A datagram is received when a program reads it.
    pub traffic: [[Traffic; Family::COUNT]; Protocol::COUNT],
}

impl NetStats {
    pub const ZERO: Self = Self { traffic: [[Traffic::ZERO; Family::COUNT]; Protocol::COUNT] };
}

/// Whose packets, dropped for which of the kernel's reasons (`enum skb_drop_reason`).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DropKey {
    /// A cgroup's id, [`crate::cgroup::KERNEL`] for packets without a socket, or 0 while it is not known.
    pub cgroup: u64,
    pub reason: u32,
    pub pad: u32,
}

/// How many.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DropStats {
    pub packets: u64,
    /// That of the key, once there was one.
    pub reason: u32,
    pub pad: u32,
}

impl DropStats {
    pub const ZERO: Self = Self { packets: 0, reason: 0, pad: 0 };
}

/// What is remembered of a socket: whose it is, as in `DropKey`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Socket {
    pub owner: u64,
}

/// What is remembered of a call until it returns, where the return does not tell.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The address of the `struct sock`.
    pub socket: u64,
    pub flags: u32,
    pub pad: u32,
}

/// Why a number was lost or could not be attributed. One counter each, shared by all CPUs.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetLoss {
    /// There was no memory to remember a socket.
    NoMemory = 0,
    /// No free slot: charged to `unknown`.
    NoFreeSlot = 1,
    /// A member on the way from the task to its cgroup could not be read.
    UnreadableCgroup = 2,
    /// A call could not be remembered until its return.
    CallTableFull = 3,
    /// A call returned without the program at its return being run.
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
