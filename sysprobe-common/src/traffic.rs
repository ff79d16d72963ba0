//! What goes through sockets, whichever protocol they speak.

/// Which version of IP.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    V4 = 0,
    V6 = 1,
    /// A socket of version 6 that also takes version 4 and has no peer of its own: the kernel does not say
    /// which it was.
    Either = 2,
}

impl Family {
    pub const COUNT: usize = 3;
    pub const ALL: [Self; Self::COUNT] = [Self::V4, Self::V6, Self::Either];
    /// Those of what is connected.
    pub const CONNECTED: usize = 2;

    /// The value of the `family` label.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::V4 => "ipv4",
            Self::V6 => "ipv6",
            Self::Either => "dual_stack",
        }
    }
}

/// What went through sockets of one family. Bytes are payload, packets what the protocol calls so: segments,
/// datagrams.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traffic {
    pub received_bytes: u64,
    pub received_packets: u64,
    pub sent_bytes: u64,
    pub sent_packets: u64,
}

impl Traffic {
    pub const ZERO: Self = Self { received_bytes: 0, received_packets: 0, sent_bytes: 0, sent_packets: 0 };
}
