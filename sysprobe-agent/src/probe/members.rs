//! Members that several objects read.

/// The members that lead from a task to its cgroup (`cgroup.rs` of the kernel side), then those that only
/// this object reads.
macro_rules! task_members {
    ($($own:expr),* $(,)?) => {
        &[
            $crate::probe::member("OFF_TASK_CGROUPS", &["task_struct.cgroups"]),
            $crate::probe::member("OFF_TASK_FLAGS", &["task_struct.flags"]),
            $crate::probe::member("OFF_CSS_CGROUP", &["cgroup_subsys_state.cgroup"]),
            $crate::probe::member("OFF_CGROUP_KN", &["cgroup.kn"]),
            $crate::probe::member("OFF_KN_ID", &["kernfs_node.id"]),
            $($own,)*
        ]
    };
}

/// The same with those that tell a socket's owner and kind (`socket.rs` and `packet.rs` of the kernel side).
macro_rules! socket_members {
    ($($own:expr),* $(,)?) => {
        $crate::probe::task_members![
            // Before Linux 5.15, the pointer shares its word with flags.
            $crate::probe::optional("OFF_SK_CGROUP", &["sock.sk_cgrp_data.cgroup"]),
            $crate::probe::member("OFF_SK_FAMILY", &["sock.__sk_common.skc_family"]),
            $crate::probe::member("OFF_SK_IPV6ONLY", &["sock.__sk_common.skc_ipv6only"]),
            $crate::probe::member("BIT_SK_IPV6ONLY", &["sock.__sk_common.skc_ipv6only.#"]),
            $crate::probe::member("OFF_SK_OWN_V6", &["sock.__sk_common.skc_v6_rcv_saddr"]),
            $crate::probe::member("OFF_SK_PEER_V6", &["sock.__sk_common.skc_v6_daddr"]),
            $crate::probe::member("OFF_SK_PROTOCOL", &["sock.sk_protocol"]),
            $crate::probe::member("OFF_SK_STATE", &["sock.__sk_common.skc_state"]),
            $crate::probe::member("OFF_SK_TYPE", &["sock.sk_type"]),
            $crate::probe::member("OFF_SKB_PROTOCOL", &["sk_buff.protocol"]),
            $crate::probe::member("OFF_SOCKET_SK", &["socket.sk"]),
            $($own,)*
        ]
    };
}
pub(super) use {socket_members, task_members};
