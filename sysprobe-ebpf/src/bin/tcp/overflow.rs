//! Connections for which a listening socket's accept queue has no room. No tracepoint reports them, so this
//! needs functions that can be hooked. The programs check what the kernel is about to check
//! (`LINUX_MIB_LISTENOVERFLOWS`). Without SYN cookies the kernel checks the queue of SYNs first, and counts
//! no overflow if both are full.

use aya_ebpf::macros::fentry;
use aya_ebpf::programs::FEntryContext;
use sysprobe_ebpf::kernel::Typed;
use sysprobe_ebpf::packet::is_version_4;

use crate::lifecycle;

/// A SYN arrives.
/// proto: v5.10- `int tcp_conn_request(rsk_ops, af_ops, struct sock *sk, struct sk_buff *skb)`
#[fentry]
fn tcp_syn_in(ctx: FEntryContext) -> i32 {
    // SAFETY: the third argument is the listening socket.
    lifecycle::asks_for_place(unsafe { Typed::new(ctx.arg(2)) });
    0
}

/// The answer to a SYN-ACK arrives.
/// proto: v5.10- `struct sock *tcp_v4_syn_recv_sock(const struct sock *sk, struct sk_buff *skb, ...)`
#[fentry]
fn tcp_ack4_in(ctx: FEntryContext) -> i32 {
    // SAFETY: the first argument is the listening socket.
    lifecycle::asks_for_place(unsafe { Typed::new(ctx.arg(0)) });
    0
}

/// The same for IPv6. This function leaves IPv4 packets to the other one.
/// proto: v5.10- `struct sock *tcp_v6_syn_recv_sock(const struct sock *sk, struct sk_buff *skb, ...)`
#[fentry]
fn tcp_ack6_in(ctx: FEntryContext) -> i32 {
    // SAFETY: the first argument is the listening socket, the second the packet.
    let (listening, packet) = unsafe { (Typed::new(ctx.arg(0)), Typed::new(ctx.arg(1))) };
    if !is_version_4(packet) {
        lifecycle::asks_for_place(listening);
    }
    0
}
