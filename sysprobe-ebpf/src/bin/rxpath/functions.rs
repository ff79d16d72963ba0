//! The same hooks as BPF trampolines, and those that exist only as functions.

use aya_ebpf::macros::fentry;
use aya_ebpf::programs::FEntryContext;
use sysprobe_ebpf::kernel::Typed;
use sysprobe_ebpf::socket::is_udp;

use crate::{arrival, datagram, ready, segment, share};

/// An argument that is a pointer.
#[inline(always)]
fn argument(ctx: &FEntryContext, place: usize) -> Typed {
    // SAFETY: see each program.
    unsafe { Typed::new(ctx.arg(place)) }
}

/// proto: v5.10- `struct sk_buff *ip_rcv_core(struct sk_buff *skb, struct net *net)`
#[fentry]
fn rxpath_ip4_in(ctx: FEntryContext) -> i32 {
    if !share::is_paused() {
        arrival::at_ip(argument(&ctx, 0));
    }
    0
}

/// proto: v5.10- `struct sk_buff *ip6_rcv_core(struct sk_buff *skb, struct net_device *dev, struct net *net)`
#[fentry]
fn rxpath_ip6_in(ctx: FEntryContext) -> i32 {
    if !share::is_paused() {
        arrival::at_ip(argument(&ctx, 0));
    }
    0
}

/// proto: v5.10- `int enqueue_to_backlog(struct sk_buff *skb, int cpu, unsigned int *qtail)`; a packet is
/// steered, and waits for that CPU's softirq
#[fentry]
fn rxpath_steer_in(ctx: FEntryContext) -> i32 {
    if share::is_noting() {
        arrival::before_steering(argument(&ctx, 0));
    }
    0
}

/// proto: v5.10- `int __udp_enqueue_schedule_skb(struct sock *sk, struct sk_buff *skb)`
#[fentry]
fn rxpath_udp_in(ctx: FEntryContext) -> i32 {
    let socket = argument(&ctx, 0);
    if !share::is_paused() && is_udp(socket) {
        datagram::arrived(socket, argument(&ctx, 1));
    }
    0
}

/// proto: v5.10- `void sock_def_readable(struct sock *sk)`
#[fentry]
fn rxpath_ready_in(ctx: FEntryContext) -> i32 {
    if !share::is_paused() {
        ready::became_ready(argument(&ctx, 0));
    }
    0
}

/// proto: v5.10- `void tcp_rcv_space_adjust(struct sock *sk)`; when data was copied to a reader
#[fentry]
fn rxpath_read_in(ctx: FEntryContext) -> i32 {
    if !share::is_paused() {
        segment::read(argument(&ctx, 0));
    }
    0
}

/// proto: v5.10- `void skb_consume_udp(struct sock *sk, struct sk_buff *skb, int len)`; when a datagram was
/// copied to a reader, with a negative length for a peek
#[fentry]
fn rxpath_take_in(ctx: FEntryContext) -> i32 {
    let socket = argument(&ctx, 0);
    if !share::is_paused() && is_udp(socket) {
        datagram::consumed(socket, ctx.arg(2));
    }
    0
}
