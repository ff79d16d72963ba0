//! The receive path.

use super::Hook::TpBtf;
use super::{Member, Need, Object, Probe, Tier, TierSet, extra, member, object, optional, program};

/// State in socket storage.
static OBJECT: Object = object!("rxpath.o");

static MEMBERS: &[Member] = &[
    member("OFF_TASK_CGROUPS", &["task_struct.cgroups"]),
    member("OFF_TASK_FLAGS", &["task_struct.flags"]),
    member("OFF_TASK_LAST_ARRIVAL", &["task_struct.sched_info.last_arrival"]),
    member("OFF_TASK_RUN_DELAY", &["task_struct.sched_info.run_delay"]),
    member("OFF_TASK_RUN_COUNT", &["task_struct.sched_info.pcount"]),
    member("OFF_CSS_CGROUP", &["cgroup_subsys_state.cgroup"]),
    member("OFF_CGROUP_KN", &["cgroup.kn"]),
    member("OFF_KN_ID", &["kernfs_node.id"]),
    member("OFF_CB_SEQ", &["tcp_skb_cb.seq"]),
    member("OFF_CB_END_SEQ", &["tcp_skb_cb.end_seq"]),
    member("OFF_CB_TCP_FLAGS", &["tcp_skb_cb.tcp_flags"]),
    member("OFF_SK_FAMILY", &["sock.__sk_common.skc_family"]),
    member("OFF_SK_LOCK_OWNED", &["sock.sk_lock.owned"]),
    member("OFF_SK_PROTOCOL", &["sock.sk_protocol"]),
    member("OFF_SK_TYPE", &["sock.sk_type"]),
    member("OFF_SKB_CB", &["sk_buff.cb"]),
    member("OFF_SKB_DATA", &["sk_buff.data"]),
    member("OFF_SKB_PROTOCOL", &["sk_buff.protocol"]),
    member("OFF_TCP_COPIED_SEQ", &["tcp_sock.copied_seq"]),
    member("OFF_TCP_RCV_NXT", &["tcp_sock.rcv_nxt"]),
    optional("PARAMS_READY", &["btf_trace_sk_data_ready.()"]),
];

const VIRTUAL: &str = "notes when a packet with data came through a device that is none of hardware";
const DEVICE: &str = "notes when a packet with data came through its first device";
const SEGMENT: &str = "begins to follow the first that a socket has unread";
const READY: &str = "notes when it may be read";
const READS: &str = "books its way when it is read";

pub(super) const PROBE: Probe = Probe {
    domain: "rxpath",
    summary: "The receive path: how long what is received takes from the first device to its reader, stage by stage. Followed is \
              what finds a socket with nothing unread; each packet with data only leaves the moment of its coming in an array. \
              When the reader was woken and got a CPU is what `sched` remembers, by typed tracepoints",
    tiers: &[TierSet {
        tier: Tier::TpBtf,
        object: OBJECT,
        programs: &[
            program("rxpath_read_tp", TpBtf("tcp_rcv_space_adjust"), READS),
            extra("rxpath_ready_tp", TpBtf("sk_data_ready"), READY),
            program("rxpath_tcp_tp", TpBtf("tcp_probe"), SEGMENT),
            program("rxpath_dev_tp", TpBtf("netif_receive_skb"), DEVICE),
            program("rxpath_virt_tp", TpBtf("netif_rx"), VIRTUAL),
        ],
        members: MEMBERS,
        needs: &[Need::SocketStorage],
    }],
};
