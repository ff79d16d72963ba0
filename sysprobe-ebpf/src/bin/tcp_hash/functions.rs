//! The same hooks as kprobes, and those that exist only as functions.

use aya_ebpf::macros::kprobe;
use aya_ebpf::programs::ProbeContext;
use sysprobe_ebpf::kernel::Address;
use sysprobe_ebpf::packet::is_version_4;

use crate::{lifecycle, segment, socket};

#[inline(always)]
fn address(ctx: &ProbeContext, place: usize) -> Address {
    Address(ctx.arg(place).unwrap_or(0))
}

/// proto: v5.10- `void inet_sk_state_store(struct sock *sk, int newstate)`; the socket still has the old
/// state
#[kprobe]
fn tcp_state_kp(ctx: ProbeContext) -> u32 {
    change(&ctx);
    0
}

/// proto: v5.10- `void inet_sk_set_state(struct sock *sk, int state)`;
/// for sockets that no other task can see yet
#[kprobe]
fn tcp_born_kp(ctx: ProbeContext) -> u32 {
    change(&ctx);
    0
}

#[inline(always)]
fn change(ctx: &ProbeContext) {
    let changing = address(ctx, 0);
    lifecycle::changed(changing, socket::state(changing), ctx.arg(1).unwrap_or(0));
}

/// proto: v5.10- `void tcp_v4_destroy_sock(struct sock *sk)`, for IPv6 as well
#[kprobe]
fn tcp_end_kp(ctx: ProbeContext) -> u32 {
    lifecycle::ended(address(&ctx, 0));
    0
}

/// proto: v5.10- `void tcp_rcv_established(struct sock *sk, struct sk_buff *skb)`
#[kprobe]
fn tcp_segment_kp(ctx: ProbeContext) -> u32 {
    segment::received(address(&ctx, 0));
    0
}

/// proto: v5.10- `void tcp_rcv_space_adjust(struct sock *sk)`; when data was copied to a reader
#[kprobe]
fn tcp_read_kp(ctx: ProbeContext) -> u32 {
    lifecycle::read(address(&ctx, 0));
    0
}

/// See the other object's `tcp_syn_in`.
#[kprobe]
fn tcp_syn_kp(ctx: ProbeContext) -> u32 {
    lifecycle::asks_for_place(address(&ctx, 2));
    0
}

#[kprobe]
fn tcp_ack4_kp(ctx: ProbeContext) -> u32 {
    lifecycle::asks_for_place(address(&ctx, 0));
    0
}

#[kprobe]
fn tcp_ack6_kp(ctx: ProbeContext) -> u32 {
    if !is_version_4(address(&ctx, 1)) {
        lifecycle::asks_for_place(address(&ctx, 0));
    }
    0
}
