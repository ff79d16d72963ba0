//! Network traffic other than TCP, and dropped packets.

use sysprobe_common::net::{Call, DropKey, DropStats, NetStats, Socket};

use super::Hook::{Fexit, FileIterator, Kprobe, Kretprobe, RawTp, TpBtf};
use super::map::{counters, hash, part_end, per_cpu_array, socket_storage};
use super::{
    AttachMode, EntryCount, MapSpec, Member, NO_SCTP, Need, Object, Probe, Program, ProgramSet, SlotMaps,
    extra, member, object, optional, program, socket_members,
};

/// The slots of traffic.
pub(crate) const SLOTS: SlotMaps =
    SlotMaps { stats: "NET_STATS", known: "NET_SLOTS", free: "NET_FREE", room: "NET_ROOM" };
/// The slots of dropped packets.
pub(crate) const DROP_SLOTS: SlotMaps =
    SlotMaps { stats: "NET_DROPS", known: "NET_DROP_SLOTS", free: "NET_DROP_FREE", room: "NET_DROP_ROOM" };

static TRAFFIC: [MapSpec; 4] = SLOTS.specs::<NetStats, u64>(EntryCount::Slots);
static DROPS: [MapSpec; 4] = DROP_SLOTS.specs::<DropStats, DropKey>(EntryCount::Drops);
/// Further maps that both objects have.
static COMMON: [MapSpec; 2] =
    [per_cpu_array::<u32>("NET_REFUSED", EntryCount::Fixed(1)), counters("NET_LOSSES")];

/// Keeps socket owners in socket storage.
static OBJECT: Object = object!(
    "net.o",
    &TRAFFIC,
    &DROPS,
    &COMMON,
    &[part_end("NET_PART_END")],
    &socket_storage::<Socket>("NET_SOCKETS", "NET_BUDGET")
);
/// Keeps calls in a hash, and takes owners from the kernel's own socket data.
static HASH_OBJECT: Object =
    object!("net_hash.o", &TRAFFIC, &DROPS, &COMMON, &[hash::<u64, Call>("NET_CALLS", EntryCount::Tracked)]);
/// The same, for programs that see only the end of a call, and so keep none.
static TRACEPOINT_OBJECT: Object = Object {
    maps: &[&TRAFFIC, &DROPS, &COMMON, &[hash::<u64, Call>("NET_CALLS", EntryCount::Fixed(1))]],
    ..HASH_OBJECT
};

macro_rules! members {
    ($($more:expr),*) => {
        socket_members![
            member("OFF_SKB_SK", &["sk_buff.sk"]),
            optional("OFF_UDP_PENDING", &["udp_sock.pending"]),
            member("CFG_DROP_PARAMETERS", &["btf_trace_kfree_skb.()"]),
            optional("VAL_DROP_MEMORY", &["skb_drop_reason.SKB_DROP_REASON_PROTO_MEM"]),
            optional("VAL_DROP_QUEUE", &["skb_drop_reason.SKB_DROP_REASON_SOCKET_RCVBUFF"]),
            $($more),*
        ]
    };
}

static MEMBERS: &[Member] = members!(member("OFF_SEQ_COUNT", &["seq_file.count"]));
static HASH_MEMBERS: &[Member] = members!(member("PARAMS_PROTO_RECEIVE", &["proto.recvmsg.()"]));

const SENT: &str = "counts what a program sends";
const RECEIVED: &str = "counts what a program receives";
const CALLED: &str = "remembers the socket until the call returns";
const DROPPED: &str = "counts packets that are dropped, with the reason";
const REFUSED: &str =
    "determines the owner of a refused datagram, where `kfree_skb` does not report the socket (before 6.11)";
const SEED: Program =
    program("net_seed", FileIterator, "determines the owners of sockets that are older than the agent");
/// The tracepoint that tells of a dropped packet, with the reason since Linux 5.17.
pub const DROP: &str = "kfree_skb";
const TYPED_DROP: Program = extra("net_drop_tp", TpBtf(DROP), DROPPED);
const REFUSE: Program = extra("net_refuse_tp", TpBtf("udp_fail_queue_rcv_skb"), REFUSED);
const RAW_DROP: Program = extra("net_drop_rt", RawTp(DROP), DROPPED);
const RAW_REFUSE: Program = extra("net_refuse_rt", RawTp("udp_fail_queue_rcv_skb"), REFUSED);

pub(super) const PROBE: Probe = Probe {
    domain: "net",
    summary: "Datagrams per owner of the socket: UDP, ICMP and all other protocols except TCP, counted when \
              a call returns; and IP packets that the kernel drops, by the kernel's drop reason (Linux 5.17)",
    sets: &[
        ProgramSet {
            mode: AttachMode::TpBtf,
            object: OBJECT,
            programs: &[
                program("net_send_tp", TpBtf("sock_send_length"), SENT),
                program("net_recv_tp", TpBtf("sock_recv_length"), RECEIVED),
                TYPED_DROP,
                REFUSE,
                SEED,
            ],
            members: MEMBERS,
            needs: &[Need::SocketStorage],
        },
        ProgramSet {
            mode: AttachMode::Fentry,
            object: OBJECT,
            programs: &[
                program("net_send4_out", Fexit("inet_sendmsg"), SENT),
                program("net_send6_out", Fexit("inet6_sendmsg"), SENT),
                program("net_recv4_out", Fexit("inet_recvmsg"), RECEIVED),
                program("net_recv6_out", Fexit("inet6_recvmsg"), RECEIVED),
                program("net_recvr_out", Fexit("sock_common_recvmsg"), RECEIVED),
                TYPED_DROP,
                REFUSE,
                SEED,
            ],
            members: MEMBERS,
            needs: &[Need::Trampolines, Need::SocketStorage],
        },
        ProgramSet {
            mode: AttachMode::RawTp,
            object: TRACEPOINT_OBJECT,
            programs: &[
                program("net_send_rt", RawTp("sock_send_length"), SENT),
                program("net_recv_rt", RawTp("sock_recv_length"), RECEIVED),
                RAW_DROP,
                RAW_REFUSE,
            ],
            members: HASH_MEMBERS,
            needs: &[],
        },
        ProgramSet {
            mode: AttachMode::Kprobe,
            object: HASH_OBJECT,
            programs: &[
                program("net_txudp4_out", Kretprobe("udp_sendmsg"), SENT),
                program("net_txudp4_in", Kprobe("udp_sendmsg"), CALLED),
                extra("net_txudp6_out", Kretprobe("udpv6_sendmsg"), SENT),
                extra("net_txudp6_in", Kprobe("udpv6_sendmsg"), CALLED),
                extra("net_txraw4_out", Kretprobe("raw_sendmsg"), SENT),
                extra("net_txraw4_in", Kprobe("raw_sendmsg"), CALLED),
                extra("net_txraw6_out", Kretprobe("rawv6_sendmsg"), SENT),
                extra("net_txraw6_in", Kprobe("rawv6_sendmsg"), CALLED),
                extra("net_txping4_out", Kretprobe("ping_v4_sendmsg"), SENT),
                extra("net_txping4_in", Kprobe("ping_v4_sendmsg"), CALLED),
                extra("net_txping6_out", Kretprobe("ping_v6_sendmsg"), SENT),
                extra("net_txping6_in", Kprobe("ping_v6_sendmsg"), CALLED),
                extra("net_txsctp_out", Kretprobe("sctp_sendmsg"), SENT).unless(NO_SCTP),
                extra("net_txsctp_in", Kprobe("sctp_sendmsg"), CALLED).unless(NO_SCTP),
                program("net_rxudp4_out", Kretprobe("udp_recvmsg"), RECEIVED),
                program("net_rxudp4_in", Kprobe("udp_recvmsg"), CALLED),
                extra("net_rxudp6_out", Kretprobe("udpv6_recvmsg"), RECEIVED),
                extra("net_rxudp6_in", Kprobe("udpv6_recvmsg"), CALLED),
                extra("net_rxraw4_out", Kretprobe("raw_recvmsg"), RECEIVED),
                extra("net_rxraw4_in", Kprobe("raw_recvmsg"), CALLED),
                extra("net_rxraw6_out", Kretprobe("rawv6_recvmsg"), RECEIVED),
                extra("net_rxraw6_in", Kprobe("rawv6_recvmsg"), CALLED),
                extra("net_rxping_out", Kretprobe("ping_recvmsg"), RECEIVED),
                extra("net_rxping_in", Kprobe("ping_recvmsg"), CALLED),
                extra("net_rxsctp_out", Kretprobe("sctp_recvmsg"), RECEIVED).unless(NO_SCTP),
                extra("net_rxsctp_in", Kprobe("sctp_recvmsg"), CALLED).unless(NO_SCTP),
                program("net_gone_kp", Kprobe("do_exit"), "forgets the call of a thread that ends"),
                RAW_DROP,
                RAW_REFUSE,
            ],
            members: HASH_MEMBERS,
            needs: &[Need::Kprobes],
        },
    ],
};
