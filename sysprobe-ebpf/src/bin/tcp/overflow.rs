//! Connections for which a listening socket's accept queue has no room. No tracepoint tells of them, so this needs functions
//! that can be hooked; and it looks at what the kernel is about to look at (`LINUX_MIB_LISTENOVERFLOWS`).

use aya_ebpf::macros::fentry;
use aya_ebpf::programs::FEntryContext;
use sysprobe_ebpf::kernel::Typed;
use sysprobe_ebpf::settings;

use crate::life;

settings!(OFF_SKB_PROTOCOL);

const ETH_P_IP: u16 = 0x0800_u16.to_be();

/// A SYN comes.
/// proto: v5.10- `int tcp_conn_request(rsk_ops, af_ops, struct sock *sk, struct sk_buff *skb)`
#[fentry]
fn tcp_syn_in(ctx: FEntryContext) -> i32 {
    // SAFETY: the third argument is the listening socket.
    life::asks_for_place(unsafe { Typed::new(ctx.arg(2)) });
    0
}

/// The answer to a SYN-ACK comes.
/// proto: v5.10- `struct sock *tcp_v4_syn_recv_sock(const struct sock *sk, struct sk_buff *skb, ...)`
#[fentry]
fn tcp_ack4_in(ctx: FEntryContext) -> i32 {
    // SAFETY: the first argument is the listening socket.
    life::asks_for_place(unsafe { Typed::new(ctx.arg(0)) });
    0
}

/// The same of version 6, which leaves what is of version 4 to the other.
/// proto: v5.10- `struct sock *tcp_v6_syn_recv_sock(const struct sock *sk, struct sk_buff *skb, ...)`
#[fentry]
fn tcp_ack6_in(ctx: FEntryContext) -> i32 {
    // SAFETY: the first argument is the listening socket, the second the packet.
    let (listening, packet) = unsafe { (Typed::new(ctx.arg(0)), Typed::new(ctx.arg(1))) };
    if packet.load_u16(&OFF_SKB_PROTOCOL) != ETH_P_IP {
        life::asks_for_place(listening);
    }
    0
}
