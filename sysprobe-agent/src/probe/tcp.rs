//! TCP: traffic, retransmissions, round-trip times, connections and listening sockets.

use sysprobe_common::tcp::{LISTENERS, READERS, Reader, STORAGES, Socket, Sockets, TcpStats};

use super::Hook::{Fentry, Fexit, FileIterator, FileScan, Kprobe, RawTp, SocketIterator, TpBtf};
use super::map::{array, counters, hash, mapped_array, part_end, socket_storage, words};
use super::{
    AttachMode, EntryCount, MapSpec, Member, Need, Object, Probe, Program, ProgramSet, SlotMaps, extra,
    member, object, optional, program, socket_members,
};

pub(crate) const SLOTS: SlotMaps =
    SlotMaps { stats: "TCP_STATS", known: "TCP_SLOTS", free: "TCP_FREE", room: "TCP_ROOM" };

static COUNTERS: [MapSpec; 4] = SLOTS.specs::<TcpStats, u64>(EntryCount::Slots);
static LOSSES: [MapSpec; 1] = [counters("TCP_LOSSES")];

/// Keeps state in socket storage.
static OBJECT: Object = object!(
    "tcp.o",
    &COUNTERS,
    &LOSSES,
    &[
        mapped_array::<Sockets>("TCP_SCAN", EntryCount::Slots),
        hash::<u64, u64>("TCP_LISTENERS", EntryCount::Fixed(LISTENERS)),
        array::<Reader>("TCP_READERS", EntryCount::Fixed(READERS)),
        words("TCP_PASS", 1),
        part_end("TCP_PART_END"),
    ],
    &socket_storage::<Socket>("TCP_SOCKETS", "TCP_BUDGET"),
);
/// Keeps state in a hash.
static HASH_OBJECT: Object =
    object!("tcp_hash.o", &COUNTERS, &LOSSES, &[hash::<u64, Socket>("TCP_SOCKETS", EntryCount::Tracked)]);

/// The members that both objects read, and those that only one of them reads.
macro_rules! members {
    ($($own:expr),* $(,)?) => {
        socket_members![
            $($own,)*
            member("OFF_SK_DROPS", &["sock.sk_drops"]),
            member("OFF_SK_ERROR", &["sock.sk_err"]),
            member("OFF_SK_FLAGS", &["sock.__sk_common.skc_flags"]),
            member("OFF_SK_LOCK_OWNED", &["sock.sk_lock.owned"]),
            member("OFF_SK_QUEUE", &["sock.sk_ack_backlog"]),
            member("OFF_SK_QUEUE_LIMIT", &["sock.sk_max_ack_backlog"]),
            member("OFF_TCP_BUSY_SINCE", &["tcp_sock.chrono_start"]),
            member("OFF_TCP_BUSY_TIMES", &["tcp_sock.chrono_stat"]),
            member("OFF_TCP_BUSY_WITH", &["tcp_sock.chrono_type"]),
            member("BIT_TCP_BUSY_WITH", &["tcp_sock.chrono_type.#"]),
            member("OFF_TCP_BYTES_ACKED", &["tcp_sock.bytes_acked"]),
            member("OFF_TCP_BYTES_RECEIVED", &["tcp_sock.bytes_received"]),
            member("OFF_TCP_BYTES_RETRANSMITTED", &["tcp_sock.bytes_retrans"]),
            member("OFF_TCP_BYTES_SENT", &["tcp_sock.bytes_sent"]),
            member("OFF_TCP_COPIED_SEQ", &["tcp_sock.copied_seq"]),
            member("OFF_TCP_DEVIATION", &["tcp_sock.mdev_us"]),
            member("OFF_TCP_NOW", &["tcp_sock.tcp_mstamp"]),
            member("OFF_TCP_OUT_OF_ORDER", &["tcp_sock.rcv_ooopack"]),
            member("OFF_TCP_RCV_NXT", &["tcp_sock.rcv_nxt"]),
            member("OFF_TCP_RETRANSMITTED", &["tcp_sock.total_retrans"]),
            member("OFF_TCP_SEGMENTS_IN", &["tcp_sock.segs_in"]),
            member("OFF_TCP_SEGMENTS_OUT", &["tcp_sock.segs_out"]),
            member("OFF_TCP_SENT_QUEUE", &["tcp_sock.tsorted_sent_queue"]),
            member("OFF_TCP_SND_UNA", &["tcp_sock.snd_una"]),
            member("OFF_TCP_SRTT", &["tcp_sock.srtt_us"]),
            member("OFF_TCP_WRITE_SEQ", &["tcp_sock.write_seq"]),
        ]
    };
}

// Absent from kernels without MPTCP.
static MEMBERS: &[Member] = members![
    optional("OFF_MPTCP_FIRST", &["mptcp_sock.first"]),
    member("OFF_SK_HASH", &["sock.__sk_common.skc_hash"]),
    member("OFF_SEQ_COUNT", &["seq_file.count"]),
];
static HASH_MEMBERS: &[Member] = members![];

const OVERFLOWS: &str =
    "counts connections for which the accept queue has no room; no tracepoint reports these";

const STATES: &str = "follows a socket's state, and determines its owner";
const ENDS: &str = "counts a socket's totals when it is destroyed";
const READS: &str =
    "determines who reads from a socket; samples the round-trip time, once a second per connection";
const SEGMENTS_BOOKED: &str =
    "samples the round-trip time, and counts the socket's totals before this segment";
const READS_BOOKED: &str = "determines who reads from a socket, and counts its totals";
const SYNACKS: &str = "counts retransmitted SYN-ACKs";
const SENT_RESETS: &str = "counts resets that are sent";
const RECEIVED_RESETS: &str = "counts resets that are received";
const SYNS_TOO_MANY: Program = extra("tcp_syn_in", Fentry("tcp_conn_request"), OVERFLOWS);
const ACKS_TOO_MANY: Program = extra("tcp_ack4_in", Fentry("tcp_v4_syn_recv_sock"), OVERFLOWS);
const ACKS6_TOO_MANY: Program = extra("tcp_ack6_in", Fentry("tcp_v6_syn_recv_sock"), OVERFLOWS);
const SYNS_BY_KPROBE: Program = extra("tcp_syn_kp", Kprobe("tcp_conn_request"), OVERFLOWS);
const ACKS_BY_KPROBE: Program = extra("tcp_ack4_kp", Kprobe("tcp_v4_syn_recv_sock"), OVERFLOWS);
const ACKS6_BY_KPROBE: Program = extra("tcp_ack6_kp", Kprobe("tcp_v6_syn_recv_sock"), OVERFLOWS);
const SEED: Program =
    program("tcp_seed", FileIterator, "creates the records of sockets that are older than the agent");
const SCAN: Program = extra(
    "tcp_scan",
    SocketIterator(&STORAGES),
    "counts all sockets and their totals when the agent is asked, at a bounded rate",
);
const SCAN_OF_FILES: Program = extra(
    "tcp_scan_fd",
    FileScan,
    "does the same for sockets that tasks have open, where the kernel refuses iterators over maps",
)
.instead_of("tcp_scan");
/// The programs that scan sockets, of which one runs.
pub const SOCKET_SCANS: [&str; 2] = [SCAN.name, SCAN_OF_FILES.name];

pub(super) const PROBE: Probe = Probe {
    domain: "tcp",
    summary: "TCP per owner of the socket: segments and bytes, retransmissions, round-trip times, \
              connections made and failed, listening sockets, sockets by state. The programs read the \
              kernel's totals of a socket when the socket is destroyed, and when a scrape or a command asks \
              the agent for numbers, so nothing is counted per packet. In the attach modes `raw_tp` and \
              `kprobe` they read them at most eight times a second, as segments arrive, and count neither \
              sockets nor drops of listening sockets",
    sets: &[
        ProgramSet {
            mode: AttachMode::TpBtf,
            object: OBJECT,
            programs: &[
                program("tcp_state_tp", TpBtf("inet_sock_set_state"), STATES),
                program("tcp_end_tp", TpBtf("tcp_destroy_sock"), ENDS),
                program("tcp_read_tp", TpBtf("tcp_rcv_space_adjust"), READS),
                program("tcp_synack_tp", TpBtf("tcp_retransmit_synack"), SYNACKS),
                program("tcp_rst_out_tp", TpBtf("tcp_send_reset"), SENT_RESETS),
                program("tcp_rst_in_tp", TpBtf("tcp_receive_reset"), RECEIVED_RESETS),
                SYNS_TOO_MANY,
                ACKS_TOO_MANY,
                ACKS6_TOO_MANY,
                SEED,
                SCAN,
                SCAN_OF_FILES,
            ],
            members: MEMBERS,
            needs: &[Need::SocketStorage],
        },
        ProgramSet {
            mode: AttachMode::Fentry,
            object: OBJECT,
            programs: &[
                program("tcp_state_in", Fentry("inet_sk_state_store"), STATES),
                program("tcp_born_in", Fentry("inet_sk_set_state"), STATES),
                program("tcp_end_in", Fentry("tcp_v4_destroy_sock"), ENDS),
                program("tcp_read_in", Fentry("tcp_rcv_space_adjust"), READS),
                program("tcp_synack_out", Fexit("tcp_rtx_synack"), SYNACKS),
                // The surrounding functions are static, and inlined into their callers.
                extra("tcp_rst_out_tp", TpBtf("tcp_send_reset"), SENT_RESETS),
                extra("tcp_rst_in_tp", TpBtf("tcp_receive_reset"), RECEIVED_RESETS),
                SYNS_TOO_MANY,
                ACKS_TOO_MANY,
                ACKS6_TOO_MANY,
                SEED,
                SCAN,
                SCAN_OF_FILES,
            ],
            members: MEMBERS,
            needs: &[Need::Trampolines, Need::SocketStorage],
        },
        ProgramSet {
            mode: AttachMode::RawTp,
            object: HASH_OBJECT,
            programs: &[
                program("tcp_state_rt", RawTp("inet_sock_set_state"), STATES),
                program("tcp_end_rt", RawTp("tcp_destroy_sock"), ENDS),
                program("tcp_segment_rt", RawTp("tcp_probe"), SEGMENTS_BOOKED),
                program("tcp_read_rt", RawTp("tcp_rcv_space_adjust"), READS_BOOKED),
                program("tcp_synack_rt", RawTp("tcp_retransmit_synack"), SYNACKS),
                program("tcp_rst_out_rt", RawTp("tcp_send_reset"), SENT_RESETS),
                program("tcp_rst_in_rt", RawTp("tcp_receive_reset"), RECEIVED_RESETS),
                SYNS_BY_KPROBE,
                ACKS_BY_KPROBE,
                ACKS6_BY_KPROBE,
            ],
            members: HASH_MEMBERS,
            needs: &[],
        },
        ProgramSet {
            mode: AttachMode::Kprobe,
            object: HASH_OBJECT,
            programs: &[
                program("tcp_state_kp", Kprobe("inet_sk_state_store"), STATES),
                program("tcp_born_kp", Kprobe("inet_sk_set_state"), STATES),
                program("tcp_end_kp", Kprobe("tcp_v4_destroy_sock"), ENDS),
                program("tcp_segment_kp", Kprobe("tcp_rcv_established"), SEGMENTS_BOOKED),
                program("tcp_read_kp", Kprobe("tcp_rcv_space_adjust"), READS_BOOKED),
                // Tracepoints cover return values and static functions better than kprobes.
                extra("tcp_synack_rt", RawTp("tcp_retransmit_synack"), SYNACKS),
                extra("tcp_rst_out_rt", RawTp("tcp_send_reset"), SENT_RESETS),
                extra("tcp_rst_in_rt", RawTp("tcp_receive_reset"), RECEIVED_RESETS),
                SYNS_BY_KPROBE,
                ACKS_BY_KPROBE,
                ACKS6_BY_KPROBE,
            ],
            members: HASH_MEMBERS,
            needs: &[Need::Kprobes],
        },
    ],
};
