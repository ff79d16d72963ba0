//! The receive path.

use sysprobe_common::rxpath::{Key, Protocol, RxpathStats, ShareWord, Unread, slow};

use super::Hook::{Fentry, Kprobe, RawTp, TpBtf};
use super::map::{array, counters, hash, ring_buffer, socket_storage, words};
use super::{
    AttachMode, EntryCount, MapSpec, Member, Need, Object, Probe, Program, ProgramSet, SlotMaps, UNSTEERED,
    extra, member, object, optional, program, task_members,
};

pub(crate) const SLOTS: SlotMaps =
    SlotMaps { stats: "RXPATH_STATS", known: "RXPATH_SLOTS", free: "RXPATH_FREE", room: "RXPATH_ROOM" };

static COUNTERS: [MapSpec; 4] = SLOTS.specs::<RxpathStats, Key>(EntryCount::Slots);
/// Further maps that both objects have.
static COMMON: [MapSpec; 8] = [
    array::<u64>("RXPATH_ARRIVALS", EntryCount::Packets),
    array::<u64>("RXPATH_IP", EntryCount::Packets),
    words("RXPATH_POINTS", Protocol::ALL.len()),
    words("RXPATH_SHARE", ShareWord::COUNT),
    words("RXPATH_WAITING", 1),
    words("RXPATH_SLOW_FROM", 1),
    ring_buffer("RXPATH_SLOW", slow::RING_BYTES),
    counters("RXPATH_LOSSES"),
];

/// Keeps state in socket storage.
static OBJECT: Object =
    object!("rxpath.o", &COUNTERS, &COMMON, &socket_storage::<Unread>("RXPATH_SOCKETS", "RXPATH_BUDGET"));
/// Keeps state in a hash by socket.
static HASH_OBJECT: Object = object!(
    "rxpath_hash.o",
    &COUNTERS,
    &COMMON,
    &[hash::<u64, Unread>("RXPATH_SOCKETS", EntryCount::Tracked)]
);

macro_rules! members {
    ($($more:expr),*) => {
        task_members![
        member("OFF_CB_SEQ", &["tcp_skb_cb.seq"]),
        member("OFF_CB_END_SEQ", &["tcp_skb_cb.end_seq"]),
        member("OFF_CB_TCP_FLAGS", &["tcp_skb_cb.tcp_flags"]),
        member("OFF_SK_FAMILY", &["sock.__sk_common.skc_family"]),
        member("OFF_SK_OWN_PORT", &["sock.__sk_common.skc_num"]),
        member("OFF_SK_PEER_PORT", &["sock.__sk_common.skc_dport"]),
        member("OFF_SK_PEER_V4", &["sock.__sk_common.skc_daddr"]),
        member("OFF_SK_PEER_V6", &["sock.__sk_common.skc_v6_daddr"]),
        member("OFF_SK_LOCK_OWNED", &["sock.sk_lock.owned"]),
        member("OFF_SK_RECEIVED_FIRST", &["sock.sk_receive_queue.next"]),
        member("OFF_SK_RECEIVED_LAST", &["sock.sk_receive_queue.prev"]),
        member("OFF_SK_RECEIVED_COUNT", &["sock.sk_receive_queue.qlen"]),
        member("OFF_SK_PROTOCOL", &["sock.sk_protocol"]),
        member("OFF_SK_TYPE", &["sock.sk_type"]),
        member("OFF_SKB_CB", &["sk_buff.cb"]),
        member("OFF_SKB_DEV", &["sk_buff.dev"]),
        member("OFF_DEV_FLAGS", &["net_device.flags"]),
        member("OFF_SKB_DATA", &["sk_buff.data"]),
        member("OFF_SKB_LENGTH", &["sk_buff.len"]),
        member("OFF_SKB_FRAGMENTS_LENGTH", &["sk_buff.data_len"]),
        member("OFF_SKB_HASH", &["sk_buff.hash"]),
        member("OFF_SKB_SW_HASH", &["sk_buff.sw_hash"]),
        member("BIT_SKB_SW_HASH", &["sk_buff.sw_hash.#"]),
        member("OFF_SKB_HEAD", &["sk_buff.head"]),
        member("OFF_SKB_NETWORK_HEADER", &["sk_buff.network_header"]),
        member("OFF_SKB_TRANSPORT_HEADER", &["sk_buff.transport_header"]),
        optional("OFF_UDP_TAKEN_LAST", &["udp_sock.reader_queue.prev"]),
        optional("OFF_UDP_TAKEN_COUNT", &["udp_sock.reader_queue.qlen"]),
        member("OFF_SKB_PROTOCOL", &["sk_buff.protocol"]),
        member("OFF_TCP_COPIED_SEQ", &["tcp_sock.copied_seq"]),
        member("OFF_TCP_RCV_NXT", &["tcp_sock.rcv_nxt"]),
        optional("PARAMS_READY", &["btf_trace_sk_data_ready.()"]),
        optional("PARAMS_RECEIVED", &["btf_trace_sock_recv_length.()"]),
            $($more),*
        ]
    };
}

/// The additional members tell what the reader's task did.
static MEMBERS: &[Member] = members!(
    member("OFF_TASK_LAST_ARRIVAL", &["task_struct.sched_info.last_arrival"]),
    member("OFF_TASK_RUN_DELAY", &["task_struct.sched_info.run_delay"]),
    member("OFF_TASK_RUN_COUNT", &["task_struct.sched_info.pcount"])
);
static HASH_MEMBERS: &[Member] = members!();

const VIRTUAL: &str = "records when a packet with data arrives at a virtual device";
const DEVICE: &str = "records when a packet with data arrives at its first device";
const STEERS: &str =
    "records when a packet with data is steered to another CPU; only where packets are steered";
const STEERS_ALL: &str = "records when a packet with data arrives, before GRO; only where packets are \
     steered and `enqueue_to_backlog` cannot be hooked";
const IP: &str = "records when IP first receives the packet";
const SEGMENT: &str =
    "starts to follow a connection's first unread segment, where `sk_data_ready` cannot be hooked";
const DATAGRAM: &str = "starts to follow a datagram that arrives while none is followed";
const READY: &str = "records when the data becomes readable; starts to follow it if no earlier program has";
const READS: &str = "adds up the stages when the data is read";

const VIRTUAL_DEVICES: Program = program("rxpath_virt_tp", TpBtf("netif_rx"), VIRTUAL);
const DEVICES: Program = program("rxpath_dev_tp", TpBtf("netif_receive_skb"), DEVICE);
/// With steering (RPS), packets wait for another CPU's softirq before `netif_receive_skb`. The function sees
/// only packets that wait; where it cannot be hooked, tracepoints see every packet, before GRO.
const STEERED: Program = extra("rxpath_steer_in", Fentry("enqueue_to_backlog"), STEERS).unless(UNSTEERED);
const STEERED_BY_KPROBE: Program =
    extra("rxpath_steer_kp", Kprobe("enqueue_to_backlog"), STEERS).unless(UNSTEERED);

const fn steered(name: &'static str, hook: super::Hook, function: &'static str) -> Program {
    extra(name, hook, STEERS_ALL).unless(UNSTEERED).instead_of(function)
}

const IP4: Program = extra("rxpath_ip4_in", Fentry("ip_rcv_core"), IP);
const IP6: Program = extra("rxpath_ip6_in", Fentry("ip6_rcv_core"), IP);
const DATAGRAMS: Program = extra("rxpath_udp_in", Fentry("__udp_enqueue_schedule_skb"), DATAGRAM);
const TAKES: Program = extra("rxpath_take_in", Fentry("skb_consume_udp"), READS);
const IP4_BY_KPROBE: Program = extra("rxpath_ip4_kp", Kprobe("ip_rcv_core"), IP);
const IP6_BY_KPROBE: Program = extra("rxpath_ip6_kp", Kprobe("ip6_rcv_core"), IP);
const DATAGRAMS_BY_KPROBE: Program = extra("rxpath_udp_kp", Kprobe("__udp_enqueue_schedule_skb"), DATAGRAM);
const TAKES_BY_KPROBE: Program = extra("rxpath_take_kp", Kprobe("skb_consume_udp"), READS);
const ENDS: &str = "removes the record of a socket that is destroyed";

pub(super) const PROBE: Probe = Probe {
    domain: "rxpath",
    summary: "The receive path: how long received data takes from the first device to its reader, by stage. \
              The programs record when each packet with data arrives; on a busy node, they record this for a \
              share of the packets. Data that arrives at an empty socket is followed. `sched` records when \
              the reader became runnable and got a CPU, in the attach mode `tp_btf`. `rxpath` can read these \
              times in `tp_btf` and `fentry`",
    sets: &[
        ProgramSet {
            mode: AttachMode::TpBtf,
            object: OBJECT,
            // The order matters: a packet that passed no hooked device would be lost, and data whose read is
            // missed would wait forever.
            programs: &[
                VIRTUAL_DEVICES,
                STEERED,
                steered("rxpath_one_tp", TpBtf("netif_receive_skb_entry"), "rxpath_steer_in"),
                steered("rxpath_list_tp", TpBtf("netif_receive_skb_list_entry"), "rxpath_steer_in"),
                steered("rxpath_gro_tp", TpBtf("napi_gro_receive_entry"), "rxpath_steer_in"),
                DEVICES,
                IP4,
                IP6,
                program("rxpath_read_tp", TpBtf("tcp_rcv_space_adjust"), READS),
                extra("rxpath_recv_tp", TpBtf("sock_recv_length"), READS),
                TAKES.unless("PARAMS_RECEIVED"),
                extra("rxpath_ready_tp", TpBtf("sk_data_ready"), READY),
                extra("rxpath_ready_in", Fentry("sock_def_readable"), READY).unless("PARAMS_READY"),
                program("rxpath_tcp_tp", TpBtf("tcp_probe"), SEGMENT).instead_of("rxpath_ready_tp"),
                DATAGRAMS,
            ],
            members: MEMBERS,
            needs: &[Need::SocketStorage],
        },
        ProgramSet {
            mode: AttachMode::Fentry,
            object: OBJECT,
            programs: &[
                // The function behind this tracepoint has another name in each kernel, and some kernels
                // inline it.
                extra("rxpath_virt_tp", TpBtf("netif_rx"), VIRTUAL),
                STEERED,
                steered("rxpath_one_tp", TpBtf("netif_receive_skb_entry"), "rxpath_steer_in"),
                steered("rxpath_list_tp", TpBtf("netif_receive_skb_list_entry"), "rxpath_steer_in"),
                steered("rxpath_gro_tp", TpBtf("napi_gro_receive_entry"), "rxpath_steer_in"),
                extra("rxpath_dev_tp", TpBtf("netif_receive_skb"), DEVICE),
                IP4,
                IP6,
                program("rxpath_read_in", Fentry("tcp_rcv_space_adjust"), READS),
                TAKES,
                program("rxpath_ready_in", Fentry("sock_def_readable"), READY),
                DATAGRAMS,
            ],
            members: MEMBERS,
            needs: &[Need::Trampolines, Need::SocketStorage],
        },
        ProgramSet {
            mode: AttachMode::RawTp,
            object: HASH_OBJECT,
            programs: &[
                program("rxpath_virt_rt", RawTp("netif_rx"), VIRTUAL),
                STEERED_BY_KPROBE,
                steered("rxpath_one_rt", RawTp("netif_receive_skb_entry"), "rxpath_steer_kp"),
                steered("rxpath_list_rt", RawTp("netif_receive_skb_list_entry"), "rxpath_steer_kp"),
                steered("rxpath_gro_rt", RawTp("napi_gro_receive_entry"), "rxpath_steer_kp"),
                program("rxpath_dev_rt", RawTp("netif_receive_skb"), DEVICE),
                IP4_BY_KPROBE,
                IP6_BY_KPROBE,
                program("rxpath_end_rt", RawTp("tcp_destroy_sock"), ENDS),
                extra("rxpath_end_kp", Kprobe("inet_sock_destruct"), ENDS),
                program("rxpath_read_rt", RawTp("tcp_rcv_space_adjust"), READS),
                extra("rxpath_recv_rt", RawTp("sock_recv_length"), READS),
                TAKES_BY_KPROBE.unless("PARAMS_RECEIVED"),
                extra("rxpath_ready_rt", RawTp("sk_data_ready"), READY),
                extra("rxpath_ready_kp", Kprobe("sock_def_readable"), READY).unless("PARAMS_READY"),
                program("rxpath_tcp_rt", RawTp("tcp_probe"), SEGMENT).instead_of("rxpath_ready_rt"),
                DATAGRAMS_BY_KPROBE,
            ],
            members: HASH_MEMBERS,
            needs: &[],
        },
        ProgramSet {
            mode: AttachMode::Kprobe,
            object: HASH_OBJECT,
            programs: &[
                // For the same reason as in the `Fentry` mode.
                extra("rxpath_virt_rt", RawTp("netif_rx"), VIRTUAL),
                STEERED_BY_KPROBE,
                steered("rxpath_one_rt", RawTp("netif_receive_skb_entry"), "rxpath_steer_kp"),
                steered("rxpath_list_rt", RawTp("netif_receive_skb_list_entry"), "rxpath_steer_kp"),
                steered("rxpath_gro_rt", RawTp("napi_gro_receive_entry"), "rxpath_steer_kp"),
                extra("rxpath_dev_rt", RawTp("netif_receive_skb"), DEVICE),
                IP4_BY_KPROBE,
                IP6_BY_KPROBE,
                program("rxpath_end_kp", Kprobe("inet_sock_destruct"), ENDS),
                program("rxpath_read_kp", Kprobe("tcp_rcv_space_adjust"), READS),
                TAKES_BY_KPROBE,
                program("rxpath_ready_kp", Kprobe("sock_def_readable"), READY),
                DATAGRAMS_BY_KPROBE,
            ],
            members: HASH_MEMBERS,
            needs: &[Need::Kprobes],
        },
    ],
};
