//! TCP: traffic, retransmissions, round-trip times, connections and listening sockets.

use super::Hook::{Fentry, FileIterator, SocketIterator, TpBtf};
use super::{Member, Need, Object, Probe, Tier, TierSet, extra, member, object, program};

/// State in socket storage.
static OBJECT: Object = object!("tcp.o");

static MEMBERS: &[Member] = &[
    member("OFF_TASK_CGROUPS", &["task_struct.cgroups"]),
    member("OFF_TASK_FLAGS", &["task_struct.flags"]),
    member("OFF_CSS_CGROUP", &["cgroup_subsys_state.cgroup"]),
    member("OFF_CGROUP_KN", &["cgroup.kn"]),
    member("OFF_KN_ID", &["kernfs_node.id"]),
    member("OFF_SK_DROPS", &["sock.sk_drops"]),
    member("OFF_SK_ERROR", &["sock.sk_err"]),
    member("OFF_SK_FAMILY", &["sock.__sk_common.skc_family"]),
    member("OFF_SK_FLAGS", &["sock.__sk_common.skc_flags"]),
    member("OFF_SK_IPV6ONLY", &["sock.__sk_common.skc_ipv6only"]),
    member("BIT_SK_IPV6ONLY", &["sock.__sk_common.skc_ipv6only.#"]),
    member("OFF_SK_LOCK_OWNED", &["sock.sk_lock.owned"]),
    member("OFF_SK_OWN_V6", &["sock.__sk_common.skc_v6_rcv_saddr"]),
    member("OFF_SK_PEER_V6", &["sock.__sk_common.skc_v6_daddr"]),
    member("OFF_SK_PROTOCOL", &["sock.sk_protocol"]),
    member("OFF_SK_QUEUE", &["sock.sk_ack_backlog"]),
    member("OFF_SK_QUEUE_LIMIT", &["sock.sk_max_ack_backlog"]),
    member("OFF_SK_STATE", &["sock.__sk_common.skc_state"]),
    member("OFF_SK_TYPE", &["sock.sk_type"]),
    member("OFF_SKB_PROTOCOL", &["sk_buff.protocol"]),
    member("OFF_SOCKET_SK", &["socket.sk"]),
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
    member("OFF_TCP_SND_UNA", &["tcp_sock.snd_una"]),
    member("OFF_TCP_SRTT", &["tcp_sock.srtt_us"]),
    member("OFF_TCP_WRITE_SEQ", &["tcp_sock.write_seq"]),
];

const OVERFLOWS: &str =
    "counts connections for which the accept queue has no room, which no tracepoint tells";

pub(super) const PROBE: Probe = Probe {
    domain: "tcp",
    summary: "TCP per owner of the socket: segments and bytes, retransmissions, round-trip times, connections made and failed, \
              listening sockets, sockets by state. What the kernel counts in each socket is read when the socket goes and \
              before the agent is asked, so nothing is counted per packet",
    tiers: &[TierSet {
        tier: Tier::TpBtf,
        object: OBJECT,
        programs: &[
            program(
                "tcp_state_tp",
                TpBtf("inet_sock_set_state"),
                "follows a socket's life, and learns whose it is",
            ),
            program("tcp_end_tp", TpBtf("tcp_destroy_sock"), "books what a socket had when it goes"),
            program(
                "tcp_segment_tp",
                TpBtf("tcp_probe"),
                "samples the round-trip time, once a second and connection",
            ),
            program("tcp_read_tp", TpBtf("tcp_rcv_space_adjust"), "learns who reads from a socket"),
            program("tcp_synack_tp", TpBtf("tcp_retransmit_synack"), "counts SYN-ACKs that are sent again"),
            program("tcp_rst_out_tp", TpBtf("tcp_send_reset"), "counts resets that are sent"),
            program("tcp_rst_in_tp", TpBtf("tcp_receive_reset"), "counts resets that are received"),
            extra("tcp_syn_in", Fentry("tcp_conn_request"), OVERFLOWS),
            extra("tcp_ack4_in", Fentry("tcp_v4_syn_recv_sock"), OVERFLOWS),
            extra("tcp_ack6_in", Fentry("tcp_v6_syn_recv_sock"), OVERFLOWS),
            program("tcp_seed", FileIterator, "takes the past of older sockets as baseline"),
            program(
                "tcp_census",
                SocketIterator("TCP_SOCKETS"),
                "books and counts all sockets, before the agent reads",
            ),
        ],
        members: MEMBERS,
        needs: &[Need::SocketStorage],
    }],
};
