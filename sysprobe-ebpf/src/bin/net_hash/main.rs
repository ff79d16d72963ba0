//! The network beside TCP, for attach modes without socket storage: the same numbers as the `net` object. A
//! call that is counted at a kretprobe is kept in a hash by thread until then. Drops are charged to the
//! cgroup that created the socket, where the kernel keeps it.
#![no_std]
#![no_main]
#![expect(clippy::inline_always, reason = "a BPF-to-BPF call costs more than these bodies")]
#![expect(clippy::needless_pass_by_value, reason = "the macros call programs with an owned context")]

#[path = "../net/accounting.rs"]
mod accounting;
#[path = "../net/drops.rs"]
mod drops;
mod functions;
#[path = "../net/traffic.rs"]
mod traffic;

use aya_ebpf::macros::raw_tracepoint;
use aya_ebpf::programs::RawTracePointContext;
use sysprobe_ebpf::kernel::Address;
use sysprobe_ebpf::packet::{is_ip, sender};
use sysprobe_ebpf::socket::maker;

use functions::caller;

/// proto: v6.3- `(struct sock *sk, int ret, int flags)`
#[raw_tracepoint(tracepoint = "sock_send_length")]
fn net_send_rt(ctx: RawTracePointContext) -> i32 {
    traffic::sent(Address(ctx.arg(0)), caller, ctx.arg(1));
    0
}

/// proto: v6.3- `(struct sock *sk, int ret, int flags)`
#[raw_tracepoint(tracepoint = "sock_recv_length")]
fn net_recv_rt(ctx: RawTracePointContext) -> i32 {
    traffic::received(Address(ctx.arg(0)), caller, ctx.arg(1), ctx.arg(2));
    0
}

/// proto: v5.17- `(struct sk_buff *skb, void *location, enum skb_drop_reason reason)`; v6.11- `(..., struct
/// sock *rx_sk)`
#[raw_tracepoint(tracepoint = "kfree_skb")]
fn net_drop_rt(ctx: RawTracePointContext) -> i32 {
    let packet = Address(ctx.arg(0));
    if !is_ip(packet) {
        return 0;
    }
    let receiver = if drops::tells_receiver() { ctx.arg(3) } else { 0 };
    let socket = if receiver == 0 { sender(packet) } else { Some(Address(receiver)) };
    drops::of_packet(socket.map(maker), ctx.arg(2));
    0
}

/// proto: v5.10- `(int rc, struct sock *sk)`
#[raw_tracepoint(tracepoint = "udp_fail_queue_rcv_skb")]
fn net_refuse_rt(ctx: RawTracePointContext) -> i32 {
    if !drops::tells_receiver() {
        drops::refused(maker(Address(ctx.arg(1))));
    }
    0
}

sysprobe_ebpf::object!();
