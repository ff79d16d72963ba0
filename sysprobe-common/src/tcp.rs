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
    /// By family. Bytes are counted once, when they were received or when the peer acknowledged them; packets are segments,
    /// those sent without what was sent again, as the kernel's `OutSegs`.
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

/// The kernel's totals of a socket, as far as they have been booked. Those of 32 bits wrap as the kernel's do.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Totals {
    pub received_bytes: u64,
    pub received_segments: u64,
    pub sent_bytes: u64,
    pub sent_segments: u64,
    pub retransmitted: u64,
    pub out_of_order: u64,
    pub window_limited: u64,
    pub drops: u64,
}

impl Totals {
    pub const ZERO: Self = Self {
        received_bytes: 0,
        received_segments: 0,
        sent_bytes: 0,
        sent_segments: 0,
        retransmitted: 0,
        out_of_order: 0,
        window_limited: 0,
        drops: 0,
    };
}

/// What is remembered of a socket.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Socket {
    /// Who is charged: a cgroup's id, [`crate::cgroup::KERNEL`], or 0 while nobody is known.
    pub owner: u64,
    /// When it sent its SYN, in `CLOCK_MONOTONIC`; 0 if it has not, or has its answer.
    pub connecting_since: u64,
    /// When its round-trip time was last sampled, by its own clock in microseconds; 0 if never.
    pub sampled_us: u64,
    /// When it was last booked on the way, likewise, where there is no census.
    pub visited_us: u64,
    /// How much its owner had read when it last did; 0 if it never has.
    pub consumed: u64,
    /// 1 if it began with a SYN of its own.
    pub asked: u32,
    /// 1 if the peer is known to have acknowledged its FIN.
    pub finished: u32,
    pub booked: Totals,
}

impl Socket {
    pub const NEW: Self = Self {
        owner: 0,
        connecting_since: 0,
        sampled_us: 0,
        visited_us: 0,
        consumed: 0,
        asked: 0,
        finished: 0,
        booked: Totals::ZERO,
    };
}

/// Why a number was lost or could not be attributed. One counter each, shared by all CPUs.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpLoss {
    /// A socket that nobody remembers was freed: it is older than the agent, or there was no room to remember it.
    UnknownSocket = 0,
    /// There was no memory to remember a socket.
    NoMemory = 1,
    /// No free slot for a new cgroup: charged to `unknown`.
    NoFreeSlot = 2,
    /// A member on the way from the task to its cgroup could not be read.
    UnreadableCgroup = 3,
    /// Something ended before it began.
    BackwardsClock = 4,
}

impl TcpLoss {
    pub const COUNT: u32 = 5;
    pub const ALL: [Self; Self::COUNT as usize] =
        [Self::UnknownSocket, Self::NoMemory, Self::NoFreeSlot, Self::UnreadableCgroup, Self::BackwardsClock];

    /// The value of the `reason` label.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::UnknownSocket => "unknown_socket",
            Self::NoMemory => "no_memory",
            Self::NoFreeSlot => "no_free_slot",
            Self::UnreadableCgroup => "unreadable_cgroup",
            Self::BackwardsClock => "backwards_clock",
        }
    }
}
