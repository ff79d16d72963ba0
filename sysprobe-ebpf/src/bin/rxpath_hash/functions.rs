//! The same hooks as kprobes, and those that exist only as functions.

use aya_ebpf::macros::kprobe;
use aya_ebpf::programs::ProbeContext;
use sysprobe_ebpf::kernel::Address;
use sysprobe_ebpf::socket::is_udp;

use crate::{arrival, datagram, memory, ready, segment, share};

#[inline(always)]
fn address(ctx: &ProbeContext, place: usize) -> Address {
    Address(ctx.arg(place).unwrap_or(0))
}

/// proto: v5.10- `struct sk_buff *ip_rcv_core(struct sk_buff *skb, struct net *net)`
#[kprobe]
fn rxpath_ip4_kp(ctx: ProbeContext) -> u32 {
    if !share::is_paused() {
        arrival::at_ip(address(&ctx, 0));
    }
    0
}

/// proto: v5.10- `struct sk_buff *ip6_rcv_core(struct sk_buff *skb, struct net_device *dev, struct net *net)`
#[kprobe]
fn rxpath_ip6_kp(ctx: ProbeContext) -> u32 {
    if !share::is_paused() {
        arrival::at_ip(address(&ctx, 0));
    }
    0
}

/// proto: v5.10- `int enqueue_to_backlog(struct sk_buff *skb, int cpu, unsigned int *qtail)`; a
/// packet is steered, and waits for that CPU's softirq
#[kprobe]
fn rxpath_steer_kp(ctx: ProbeContext) -> u32 {
    if share::is_noting() {
        arrival::before_steering(address(&ctx, 0));
    }
    0
}

/// proto: v5.10- `int __udp_enqueue_schedule_skb(struct sock *sk, struct sk_buff *skb)`
#[kprobe]
fn rxpath_udp_kp(ctx: ProbeContext) -> u32 {
    let socket = address(&ctx, 0);
    if !share::is_paused() && is_udp(socket) {
        datagram::arrived(socket, address(&ctx, 1));
    }
    0
}

/// proto: v5.10- `void sock_def_readable(struct sock *sk)`
#[kprobe]
fn rxpath_ready_kp(ctx: ProbeContext) -> u32 {
    if !share::is_paused() {
        ready::became_ready(address(&ctx, 0));
    }
    0
}

/// proto: v5.10- `void tcp_rcv_space_adjust(struct sock *sk)`; when data was copied to a reader
#[kprobe]
fn rxpath_read_kp(ctx: ProbeContext) -> u32 {
    if !share::is_paused() {
        segment::read(address(&ctx, 0));
    }
    0
}

/// See `rxpath_take_in` of the other object.
#[kprobe]
fn rxpath_take_kp(ctx: ProbeContext) -> u32 {
    let socket = address(&ctx, 0);
    if !share::is_paused() && is_udp(socket) {
        datagram::consumed(socket, ctx.arg(2).unwrap_or(-1));
    }
    0
}

/// proto: v5.10- `void inet_sock_destruct(struct sock *sk)`; of every Internet protocol
#[kprobe]
fn rxpath_end_kp(ctx: ProbeContext) -> u32 {
    memory::forget(address(&ctx, 0));
    0
}
