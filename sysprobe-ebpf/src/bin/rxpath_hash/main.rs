//! The receive path, for attach modes without socket storage: the same numbers as the `rxpath` object,
//! without the reader's stages. The records of sockets are in a hash by address, and helpers read kernel
//! memory, so the verifier needs no types.
#![no_std]
#![no_main]
#![expect(clippy::inline_always, reason = "a BPF-to-BPF call costs more than these bodies")]
#![expect(clippy::needless_pass_by_value, reason = "the macros call programs with an owned context")]

#[path = "../rxpath/accounting.rs"]
mod accounting;
#[path = "../rxpath/arrival.rs"]
mod arrival;
#[path = "../rxpath/datagram.rs"]
mod datagram;
mod functions;
#[path = "../rxpath/losses.rs"]
mod losses;
mod memory;
#[path = "../rxpath/name.rs"]
mod name;
mod reader;
#[path = "../rxpath/ready.rs"]
mod ready;
#[path = "../rxpath/receive_path.rs"]
mod receive_path;
#[path = "../rxpath/segment.rs"]
mod segment;
#[path = "../rxpath/share.rs"]
mod share;
#[path = "../rxpath/slow.rs"]
mod slow;

use aya_ebpf::macros::raw_tracepoint;
use aya_ebpf::programs::RawTracePointContext;
use sysprobe_ebpf::kernel::Address;
use sysprobe_ebpf::socket::is_udp;

/// proto: v5.10- `(struct sk_buff *skb)`; a virtual device, before the packet waits for its softirq
#[raw_tracepoint(tracepoint = "netif_rx")]
fn rxpath_virt_rt(ctx: RawTracePointContext) -> i32 {
    arrival::before_softirq(Address(ctx.arg(0)));
    0
}

/// proto: v5.10- `(struct sk_buff *skb)`; any device, within the softirq
#[raw_tracepoint(tracepoint = "netif_receive_skb")]
fn rxpath_dev_rt(ctx: RawTracePointContext) -> i32 {
    arrival::within_softirq(Address(ctx.arg(0)));
    0
}

/// proto: v5.10- `(const struct sk_buff *skb)`; before a packet is steered, from a driver without GRO
#[raw_tracepoint(tracepoint = "netif_receive_skb_entry")]
fn rxpath_one_rt(ctx: RawTracePointContext) -> i32 {
    arrival::before_steering(Address(ctx.arg(0)));
    0
}

/// proto: v5.10- `(const struct sk_buff *skb)`; the same, for each packet of a list
#[raw_tracepoint(tracepoint = "netif_receive_skb_list_entry")]
fn rxpath_list_rt(ctx: RawTracePointContext) -> i32 {
    arrival::before_steering(Address(ctx.arg(0)));
    0
}

/// proto: v5.10- `(const struct sk_buff *skb)`; before GRO, which hands packets on without another tracepoint
#[raw_tracepoint(tracepoint = "napi_gro_receive_entry")]
fn rxpath_gro_rt(ctx: RawTracePointContext) -> i32 {
    arrival::before_steering(Address(ctx.arg(0)));
    0
}

/// proto: v5.10- `(struct sock *sk, struct sk_buff *skb)`; within `tcp_rcv_established`
#[raw_tracepoint(tracepoint = "tcp_probe")]
fn rxpath_tcp_rt(ctx: RawTracePointContext) -> i32 {
    segment::arrived(Address(ctx.arg(0)), Address(ctx.arg(1)));
    0
}

/// proto: v6.3- `(const struct sock *sk)`; within `sock_def_readable` and its like, of every family
#[raw_tracepoint(tracepoint = "sk_data_ready")]
fn rxpath_ready_rt(ctx: RawTracePointContext) -> i32 {
    ready::became_ready(Address(ctx.arg(0)));
    0
}

/// proto: v5.10- `(struct sock *sk)`; when data was copied to a reader
#[raw_tracepoint(tracepoint = "tcp_rcv_space_adjust")]
fn rxpath_read_rt(ctx: RawTracePointContext) -> i32 {
    segment::read(Address(ctx.arg(0)));
    0
}

/// proto: v6.3- `(struct sock *sk, int ret, int flags)`
#[raw_tracepoint(tracepoint = "sock_recv_length")]
fn rxpath_recv_rt(ctx: RawTracePointContext) -> i32 {
    let socket = Address(ctx.arg(0));
    if is_udp(socket) {
        datagram::received(socket, ctx.arg(1), ctx.arg(2));
    }
    0
}

/// proto: v5.10- `(struct sock *sk)`
#[raw_tracepoint(tracepoint = "tcp_destroy_sock")]
fn rxpath_end_rt(ctx: RawTracePointContext) -> i32 {
    memory::forget(Address(ctx.arg(0)));
    0
}

sysprobe_ebpf::object!();
