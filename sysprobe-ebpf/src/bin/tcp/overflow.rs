//! Connections for which a listening socket's accept queue has no room. No tracepoint tells of them, so this needs functions
//! that can be hooked; and it looks at what the kernel is about to look at (`LINUX_MIB_LISTENOVERFLOWS`).

use aya_ebpf::macros::fentry;
use aya_ebpf::programs::FEntryContext;
use sysprobe_common::tcp::Count;
use sysprobe_ebpf::kernel::Typed;
use sysprobe_ebpf::settings;

use crate::booking::{count, stats_of};
use crate::{life, socket};

settings!(OFF_SKB_PROTOCOL);

const ETH_P_IP: u16 = 0x0800_u16.to_be();

/// A SYN comes.
/// proto: v5.10- `int tcp_conn_request(rsk_ops, af_ops, struct sock *sk, struct sk_buff *skb)`
#[fentry]
fn tcp_syn_in(ctx: FEntryContext) -> i32 {
    // SAFETY: the third argument is the listening socket.
    look(unsafe { Typed::new(ctx.arg(2)) });
    0
}

/// The answer to a SYN-ACK comes.
/// proto: v5.10- `struct sock *tcp_v4_syn_recv_sock(const struct sock *sk, struct sk_buff *skb, ...)`
#[fentry]
fn tcp_ack4_in(ctx: FEntryContext) -> i32 {
    // SAFETY: the first argument is the listening socket.
    look(unsafe { Typed::new(ctx.arg(0)) });
    0
}

/// The same of version 6, which leaves what is of version 4 to the other.
/// proto: v5.10- `struct sock *tcp_v6_syn_recv_sock(const struct sock *sk, struct sk_buff *skb, ...)`
#[fentry]
fn tcp_ack6_in(ctx: FEntryContext) -> i32 {
    // SAFETY: the first argument is the listening socket, the second the packet.
    let (listening, packet) = unsafe { (Typed::new(ctx.arg(0)), Typed::new(ctx.arg(1))) };
    if packet.load_u16(&OFF_SKB_PROTOCOL) != ETH_P_IP {
        look(listening);
    }
    0
}

#[inline(always)]
fn look(listening: Typed) {
    if !socket::is_full(listening) {
        return;
    }
    let owner = life::known(listening).map_or(0, |remembered| remembered.owner);
    if let Some(stats) = stats_of(owner) {
        count(stats, Count::AcceptOverflows, 1);
    }
}
