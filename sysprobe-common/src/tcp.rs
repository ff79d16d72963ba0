//! TCP: statistics per cgroup, the record of a socket, and reasons why a number may be lost.

use crate::hist::Times;
use crate::traffic::{Family, Traffic};

mod reader;

pub use reader::{READERS, Reader};

/// Counters beside the traffic, in the order of `TcpStats::counts`.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Retransmitted segments (`tcp_sock.total_retrans`) and SYN-ACKs.
    Retransmitted = 0,
    /// The SYNs and SYN-ACKs among them.
    RetransmittedSyns = 1,
    /// Segments that were received out of order (`tcp_sock.rcv_ooopack`).
    OutOfOrder = 2,
    /// SYNs and final ACKs that a listening socket dropped (its `sock.sk_drops`).
    AcceptDrops = 3,
    ResetsSent = 4,
    ResetsReceived = 5,
    ConnectRefused = 6,
    ConnectTimedOut = 7,
    ConnectUnreachable = 8,
    /// Given up by the process, or failed for another reason.
    ConnectAborted = 9,
    /// Jiffies for which the peer's window was too small for the data to send.
    WindowLimited = 10,
    /// Connections for which the accept queue had no room. Counted only where functions can be hooked.
    AcceptOverflows = 11,
}

impl Count {
    pub const COUNT: usize = 12;
}

/// The statistics of one slot. All members are added to atomically. The 32-bit counters wrap.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpStats {
    /// By family. Bytes count once, when they are received or when the peer acknowledges them. Packets are
    /// segments; as in the kernel's `OutSegs`, the sent ones exclude retransmissions.
    pub traffic: [Traffic; Family::CONNECTED],
    pub counts: [u64; Count::COUNT],
    /// The smoothed round-trip time of connections.
    pub srtt: Times,
    /// Its mean deviation, which `ss` calls rttvar.
    pub variance: Times,
    /// The time from the SYN to the answer.
    pub connect: Times,
}

impl TcpStats {
    pub const ZERO: Self = Self {
        traffic: [Traffic::ZERO; Family::CONNECTED],
        counts: [0; Count::COUNT],
        srtt: Times::ZERO,
        variance: Times::ZERO,
        connect: Times::ZERO,
    };
}

/// `include/net/tcp_states.h`. The numbers are part of the ABI.
pub mod state {
    pub const ESTABLISHED: u32 = 1;
    pub const SYN_SENT: u32 = 2;
    pub const SYN_RECV: u32 = 3;
    pub const FIN_WAIT1: u32 = 4;
    pub const FIN_WAIT2: u32 = 5;
    pub const TIME_WAIT: u32 = 6;
    pub const CLOSE: u32 = 7;
    pub const LAST_ACK: u32 = 9;
    pub const LISTEN: u32 = 10;
    pub const CLOSING: u32 = 11;
    pub const NEW_SYN_RECV: u32 = 12;
    /// One more than the highest.
    pub const COUNT: usize = 13;

    /// Names by number, as in the kernel's documentation, in lower case.
    pub const NAMES: [&str; COUNT] = [
        "",
        "established",
        "syn_sent",
        "syn_recv",
        "fin_wait1",
        "fin_wait2",
        "time_wait",
        "close",
        "close_wait",
        "last_ack",
        "listen",
        "closing",
        "new_syn_recv",
    ];
}

/// Passes the names of the maps that hold the records of sockets to another macro.
#[macro_export]
macro_rules! tcp_sockets {
    ($to:ident) => {
        $to! {
            TCP_SOCKETS_0 TCP_SOCKETS_1 TCP_SOCKETS_2 TCP_SOCKETS_3 TCP_SOCKETS_4 TCP_SOCKETS_5
            TCP_SOCKETS_6 TCP_SOCKETS_7 TCP_SOCKETS_8 TCP_SOCKETS_9 TCP_SOCKETS_10 TCP_SOCKETS_11
            TCP_SOCKETS_12 TCP_SOCKETS_13 TCP_SOCKETS_14 TCP_SOCKETS_15 TCP_SOCKETS_16 TCP_SOCKETS_17
            TCP_SOCKETS_18 TCP_SOCKETS_19 TCP_SOCKETS_20 TCP_SOCKETS_21 TCP_SOCKETS_22 TCP_SOCKETS_23
            TCP_SOCKETS_24 TCP_SOCKETS_25 TCP_SOCKETS_26 TCP_SOCKETS_27 TCP_SOCKETS_28 TCP_SOCKETS_29
            TCP_SOCKETS_30 TCP_SOCKETS_31 TCP_SOCKETS_32 TCP_SOCKETS_33 TCP_SOCKETS_34 TCP_SOCKETS_35
            TCP_SOCKETS_36 TCP_SOCKETS_37 TCP_SOCKETS_38 TCP_SOCKETS_39 TCP_SOCKETS_40 TCP_SOCKETS_41
            TCP_SOCKETS_42 TCP_SOCKETS_43 TCP_SOCKETS_44 TCP_SOCKETS_45 TCP_SOCKETS_46 TCP_SOCKETS_47
            TCP_SOCKETS_48 TCP_SOCKETS_49 TCP_SOCKETS_50 TCP_SOCKETS_51 TCP_SOCKETS_52 TCP_SOCKETS_53
            TCP_SOCKETS_54 TCP_SOCKETS_55 TCP_SOCKETS_56 TCP_SOCKETS_57 TCP_SOCKETS_58 TCP_SOCKETS_59
            TCP_SOCKETS_60 TCP_SOCKETS_61 TCP_SOCKETS_62 TCP_SOCKETS_63
        }
    };
}

macro_rules! in_text {
    ($($name:ident)+) => { [$(stringify!($name)),+] };
}

/// The maps that hold the records of sockets, in the order of the array `TCP_SOCKETS`. An iterator resumes
/// within a list of a map by counting from its beginning, so lists must be short. A map has only about as
/// many lists as there are possible CPUs, hence several maps.
pub const STORAGES: [&str; 64] = tcp_sockets!(in_text);

/// The number of listening sockets whose owners are kept for the connections that they accept.
pub const LISTENERS: u32 = 4096;

/// The sockets of a slot's owner at one moment.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sockets {
    /// Connections in accept queues, and the sum of the queues' limits.
    pub waiting: u64,
    pub limit: u64,
    /// By state.
    pub states: [u32; state::COUNT],
    /// How full the fullest queue is, in 1/1024.
    pub fullest: u32,
}

impl Sockets {
    pub const NONE: Self = Self { waiting: 0, limit: 0, states: [0; state::COUNT], fullest: 0 };
}

/// The kernel's totals of a socket at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Totals {
    pub received_bytes: u64,
    pub sent_bytes: u64,
    pub received_segments: u32,
    pub sent_segments: u32,
    pub retransmitted: u32,
    pub out_of_order: u32,
    /// For a listening socket: its drops. For others: the jiffies for which the peer's window was too small.
    pub dropped_or_limited: u32,
}

impl Totals {
    pub const ZERO: Self = Self {
        received_bytes: 0,
        sent_bytes: 0,
        received_segments: 0,
        sent_segments: 0,
        retransmitted: 0,
        out_of_order: 0,
        dropped_or_limited: 0,
    };
}

/// The record of a socket. With the kernel's header of 72 bytes it fills an allocation of 128, because a node
/// may have a million sockets.
///
/// `flags` is written only with the socket locked. The scan, which holds no lock, claims totals and `times`
/// by compare and exchange, and is the only one to write `visited`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Socket {
    /// The owner that is charged: a cgroup's id, [`crate::cgroup::KERNEL`], or 0 while it is not known.
    pub owner: u64,
    /// The totals that are accounted for; see [`Totals`]. The 32-bit ones wrap as the kernel's do.
    pub received_bytes: u64,
    pub sent_bytes: u64,
    pub received_segments: u32,
    pub sent_segments: u32,
    pub retransmitted: u32,
    pub out_of_order: u32,
    pub dropped_or_limited: u32,
    /// Bits of [`socket_flag`].
    pub flags: u16,
    /// The number of the scan that counted it last; see [`Socket::pass`]. Where there is no scan, the time of
    /// the last accounting before its end; see [`Socket::tick`].
    pub visited: u16,
    /// With `CONNECTING`: when the SYN was sent, in `CLOCK_MONOTONIC`. Otherwise, the lower half is the time
    /// of the last round-trip sample, in units of 2^20 microseconds by the socket's own clock, with the
    /// highest bit set. The upper half is the sequence number up to which the owner has read.
    times: u64,
}

const _: () = assert!(size_of::<Socket>() == 56);

/// Bits of `Socket::flags`.
pub mod socket_flag {
    /// It sent the first SYN.
    pub const ASKED: u16 = 1;
    /// It sent its FIN.
    pub const FIN_SENT: u16 = 1 << 1;
    /// Its SYN has not been answered yet.
    pub const CONNECTING: u16 = 1 << 2;
    /// Its owner has read from it.
    pub const HAS_READ: u16 = 1 << 3;
}

impl Socket {
    pub const NEW: Self = Self {
        owner: 0,
        received_bytes: 0,
        sent_bytes: 0,
        received_segments: 0,
        sent_segments: 0,
        retransmitted: 0,
        out_of_order: 0,
        dropped_or_limited: 0,
        flags: 0,
        visited: 0,
        times: 0,
    };

    /// A record with these totals as the baseline.
    #[inline]
    #[must_use]
    pub const fn booked(owner: u64, totals: &Totals) -> Self {
        let mut new = Self { owner, ..Self::NEW };
        new.set_booked(totals);
        new
    }

    #[inline]
    pub const fn set_booked(&mut self, totals: &Totals) {
        self.received_bytes = totals.received_bytes;
        self.sent_bytes = totals.sent_bytes;
        self.received_segments = totals.received_segments;
        self.sent_segments = totals.sent_segments;
        self.retransmitted = totals.retransmitted;
        self.out_of_order = totals.out_of_order;
        self.dropped_or_limited = totals.dropped_or_limited;
    }

    #[inline]
    #[must_use]
    pub const fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    /// Starts again for a socket that connects or listens, as the kernel's totals do.
    #[inline]
    pub const fn begin(&mut self, connecting_since: Option<u64>) {
        (self.flags, self.times) = match connecting_since {
            Some(since) => (socket_flag::ASKED | socket_flag::CONNECTING, since),
            None => (0, 0),
        };
    }

    /// Ends the connection's setup, and returns when it began.
    #[inline]
    pub const fn end_connecting(&mut self) -> u64 {
        let since = self.times;
        self.flags &= !socket_flag::CONNECTING;
        self.times = 0;
        since
    }

    /// Records up to which sequence number the owner has read.
    #[inline]
    pub const fn set_read(&mut self, up_to: u32) {
        if !self.has(socket_flag::CONNECTING) {
            self.times = self.times & 0xffff_ffff | (up_to as u64) << 32;
            self.flags |= socket_flag::HAS_READ;
        }
    }

    /// The part of the received bytes that the owner has read, if all of them end at this sequence number.
    /// Less than 2 GiB are unread, because no window is as large. If the last position was lost (see
    /// `readers.rs` of the programs), what was read since must be less, too.
    #[inline]
    #[must_use]
    #[expect(clippy::cast_sign_loss, reason = "no less than 0")]
    #[expect(clippy::cast_possible_wrap, reason = "an end that was read lies behind all data")]
    pub const fn consumed(&self, received: u64, end: u32) -> u64 {
        let unread = end.wrapping_sub((self.times >> 32) as u32) as i32;
        if unread > 0 { received.saturating_sub(unread as u64) } else { received }
    }

    /// Whether the round-trip time was sampled at all.
    #[inline]
    #[must_use]
    pub const fn is_sampled(&self) -> bool {
        !self.has(socket_flag::CONNECTING) && self.times & 0xffff_ffff != 0
    }

    /// Whether a sample of the round-trip time is due, by the socket's clock: once in 2^20 microseconds. A
    /// division by a million would cost more than all the rest here.
    #[inline]
    #[must_use]
    pub const fn is_due(&self, now_us: u64) -> bool {
        !self.has(socket_flag::CONNECTING) && self.times & 0xffff_ffff != Self::sample_time(now_us)
    }

    /// The word with the time of the sample, as it is and as it will be.
    #[inline]
    #[must_use]
    pub const fn sampled(&self, now_us: u64) -> (u64, u64) {
        (self.times, self.times & !0xffff_ffff | Self::sample_time(now_us))
    }

    #[inline]
    pub const fn times_mut(&mut self) -> &mut u64 {
        &mut self.times
    }

    #[inline]
    const fn sample_time(now_us: u64) -> u64 {
        now_us >> 20 & 0x7fff_ffff | 0x8000_0000
    }

    /// The 16-bit number of a scan, never 0. It repeats after 32,768 scans.
    #[inline]
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "it wraps")]
    pub const fn pass(number: u64) -> u16 {
        number as u16 | 0x8000
    }

    /// A time by the socket's clock, in units of 2^17 microseconds (131 ms), which wraps after two hours.
    #[inline]
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "it wraps")]
    pub const fn tick(now_us: u64) -> u16 {
        (now_us >> 17) as u16
    }
}

/// Why a number was lost or could not be attributed. One counter each, in lanes.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpLoss {
    /// A socket without a record was freed: it is older than the agent, or there was no room for a record.
    UnknownSocket = 0,
    /// No memory for a socket's record.
    NoMemory = 1,
    /// No free slot for a new cgroup: charged to `unknown`.
    NoFreeSlot = 2,
    /// A kernel structure between the task and its cgroup could not be read.
    UnreadableCgroup = 3,
    /// The setup of a connection ended before it began.
    BackwardsClock = 4,
    /// No room for a listening socket's owner. The socket's connections are charged to the cgroup that
    /// created it.
    TooManyListeners = 5,
}

impl TcpLoss {
    pub const COUNT: u32 = 6;
    pub const ALL: [Self; Self::COUNT as usize] = [
        Self::UnknownSocket,
        Self::NoMemory,
        Self::NoFreeSlot,
        Self::UnreadableCgroup,
        Self::BackwardsClock,
        Self::TooManyListeners,
    ];

    /// The value of the `reason` label.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::UnknownSocket => "unknown_socket",
            Self::NoMemory => "no_memory",
            Self::NoFreeSlot => "no_free_slot",
            Self::UnreadableCgroup => "unreadable_cgroup",
            Self::BackwardsClock => "backwards_clock",
            Self::TooManyListeners => "too_many_listeners",
        }
    }
}
