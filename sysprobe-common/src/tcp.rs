//! TCP: what is kept per cgroup, what is remembered of a socket, and the ways a number can be lost.

use crate::hist::Times;
use crate::traffic::{Family, Traffic};

/// What is counted beside the traffic. The order is that of `TcpStats::counts`.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Segments sent again (`tcp_sock.total_retrans`), and SYN-ACKs sent again.
    Retransmitted = 0,
    /// Of those the SYNs and SYN-ACKs.
    RetransmittedSyns = 1,
    /// Segments that arrived before one that was missing (`tcp_sock.rcv_ooopack`).
    OutOfOrder = 2,
    /// SYNs and final ACKs that a listening socket dropped (`sock.sk_drops` of it).
    AcceptDrops = 3,
    ResetsSent = 4,
    ResetsReceived = 5,
    ConnectRefused = 6,
    ConnectTimedOut = 7,
    ConnectUnreachable = 8,
    /// Given up by the program, or failed otherwise.
    ConnectAborted = 9,
    /// Jiffies for which the peer's window had no room for what there was to send.
    WindowLimited = 10,
    /// Connections for which a listening socket's accept queue had no room. Where functions can be hooked.
    AcceptOverflows = 11,
}

impl Count {
    pub const COUNT: usize = 12;
}

/// What a slot holds. All is added to atomically. The 32-bit numbers wrap.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpStats {
    /// By family. Bytes are counted once, when they were received or when the peer acknowledged them; packets
    /// are segments, those sent without what was sent again, as the kernel's `OutSegs`.
    pub traffic: [Traffic; Family::CONNECTED],
    pub counts: [u64; Count::COUNT],
    /// The smoothed round-trip time of connections.
    pub srtt: Times,
    /// Its mean deviation, which `ss` calls rttvar.
    pub variance: Times,
    /// From the SYN to the answer.
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

/// `include/net/tcp_states.h`: the numbers have not changed since the beginning, and are part of the ABI.
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

    /// As in the kernel's own documents, in lower case; by number.
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

/// The maps that what is remembered of sockets is spread over, in the order of the array `TCP_SOCKETS` that
/// holds them. The kernel goes over a map list by list, and has about as many lists as there may be CPUs; it
/// finds its way back into one by counting, so that none may be long.
pub const STORAGES: [&str; 16] = [
    "TCP_SOCKETS_0",
    "TCP_SOCKETS_1",
    "TCP_SOCKETS_2",
    "TCP_SOCKETS_3",
    "TCP_SOCKETS_4",
    "TCP_SOCKETS_5",
    "TCP_SOCKETS_6",
    "TCP_SOCKETS_7",
    "TCP_SOCKETS_8",
    "TCP_SOCKETS_9",
    "TCP_SOCKETS_10",
    "TCP_SOCKETS_11",
    "TCP_SOCKETS_12",
    "TCP_SOCKETS_13",
    "TCP_SOCKETS_14",
    "TCP_SOCKETS_15",
];

/// Listening sockets whose owners are noted for the connections that they accept.
pub const LISTENERS: u32 = 4096;

/// The sockets that a slot's owner has at one moment.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sockets {
    /// Connections that wait to be accepted, and how many may.
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
    /// Of a listening socket: what it dropped. Of others: the jiffies for which the peer's window had no
    /// room.
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

/// What is remembered of a socket. With the kernel's head of 72 bytes it fills an allocation of 128: there
/// may be a million.
///
/// Everything but `owner` and the booked totals is written with the socket locked only.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Socket {
    /// The owner that is charged: a cgroup's id, [`crate::cgroup::KERNEL`], or 0 while it is not known.
    pub owner: u64,
    /// The totals as far as they have been booked: see [`Totals`]. Those of 32 bits wrap as the kernel's do.
    pub received_bytes: u64,
    pub sent_bytes: u64,
    pub received_segments: u32,
    pub sent_segments: u32,
    pub retransmitted: u32,
    pub out_of_order: u32,
    pub dropped_or_limited: u32,
    /// Bits of [`socket_flag`].
    pub flags: u16,
    /// The number of the scan's pass that counted it last, see [`Socket::pass`]; where there is no scan, when
    /// it was last booked on the way, see [`Socket::tick`].
    pub visited: u16,
    /// With `CONNECTING`: when it sent its SYN, in `CLOCK_MONOTONIC`. Else two halves: the lower one tells
    /// when its round-trip time was last sampled, in steps of 2^20 microseconds by its own clock, with the
    /// highest bit set; the upper one is the sequence number up to which its owner has read.
    times: u64,
}

const _: () = assert!(size_of::<Socket>() == 56);

/// What there is to know of a socket in one bit each.
pub mod socket_flag {
    /// It began with a SYN of its own.
    pub const ASKED: u16 = 1;
    /// The peer is known to have acknowledged its FIN.
    pub const FINISHED: u16 = 1 << 1;
    /// It has no answer to its SYN yet.
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

    /// One whose past is booked.
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

    /// Begins anew, as the kernel's totals do.
    #[inline]
    pub const fn begin(&mut self, connecting_since: Option<u64>) {
        (self.flags, self.times) = match connecting_since {
            Some(since) => (socket_flag::ASKED | socket_flag::CONNECTING, since),
            None => (0, 0),
        };
    }

    /// Ends the time of connecting, and says when it began.
    #[inline]
    pub const fn end_connecting(&mut self) -> u64 {
        let since = self.times;
        self.flags &= !socket_flag::CONNECTING;
        self.times = 0;
        since
    }

    /// Notes up to which sequence number the owner has read.
    #[inline]
    pub const fn set_read(&mut self, up_to: u32) {
        if !self.has(socket_flag::CONNECTING) {
            self.times = self.times & 0xffff_ffff | (up_to as u64) << 32;
            self.flags |= socket_flag::HAS_READ;
        }
    }

    /// How much of what was received the owner has read, if all of it ends at a sequence number. Less than 2
    /// GiB came since: no window is as large.
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

    /// Whether the round-trip time may be sampled at a time in microseconds by the socket's clock: once in
    /// each second of 2^20 microseconds, as a division costs more than all the rest here.
    #[inline]
    #[must_use]
    pub const fn is_due(&self, now_us: u64) -> bool {
        !self.has(socket_flag::CONNECTING) && self.times & 0xffff_ffff != Self::sample_time(now_us)
    }

    #[inline]
    pub const fn set_sampled(&mut self, now_us: u64) {
        if !self.has(socket_flag::CONNECTING) {
            self.times = self.sampled(now_us).1;
        }
    }

    /// The word that says so, as it is and as it will be.
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

    /// A pass of the scan; 0 is none. It comes again after 32,768 passes.
    #[inline]
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "it wraps")]
    pub const fn pass(number: u64) -> u16 {
        number as u16 | 0x8000
    }

    /// A time by the socket's clock, in steps of an eighth of a second (131 ms), which wrap after two hours.
    #[inline]
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "it wraps")]
    pub const fn tick(now_us: u64) -> u16 {
        (now_us >> 17) as u16
    }
}

/// Why a number was lost or could not be attributed. One counter each, shared by all CPUs.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpLoss {
    /// A socket that was not remembered was freed: it is older than the agent, or there was no room to
    /// remember it.
    UnknownSocket = 0,
    /// There was no memory to remember a socket.
    NoMemory = 1,
    /// No free slot for a new cgroup: charged to `unknown`.
    NoFreeSlot = 2,
    /// A member on the way from the task to its cgroup could not be read.
    UnreadableCgroup = 3,
    /// Something ended before it began.
    BackwardsClock = 4,
    /// No place for a listening socket's owner: its connections are charged to the cgroup that made it.
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
