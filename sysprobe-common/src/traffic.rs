//! Traffic through sockets of any protocol.

/// The IP version.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    V4 = 0,
    V6 = 1,
    /// An IPv6 socket that also accepts IPv4 and has no peer: the kernel does not say which version was used.
    Either = 2,
}

impl Family {
    pub const COUNT: usize = 3;
    pub const ALL: [Self; Self::COUNT] = [Self::V4, Self::V6, Self::Either];
    /// The number of families that a connected socket may have.
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

/// Traffic of one family. Bytes are payload. Packets are the protocol's units: segments or datagrams.
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
