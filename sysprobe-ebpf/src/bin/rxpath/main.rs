//! The receive path: how long received data takes from a network device to its reader, stage by stage.
//!
//! Packets are not followed one by one. Each packet with data has its arrival recorded in an array. A socket
//! with nothing unread takes the arrival of the next segment from there, and keeps it together with the times
//! at which the data became readable and was read. The `sched` domain knows when the reader was woken and
//! when it got a CPU.
#![no_std]
#![no_main]
#![expect(clippy::inline_always, reason = "a BPF-to-BPF call costs more than these bodies")]
#![expect(clippy::needless_pass_by_value, reason = "the macros call programs with an owned context")]

mod accounting;
mod arrival;
mod datagram;
mod functions;
mod losses;
mod memory;
mod name;
mod reader;
mod ready;
mod receive_path;
mod segment;
mod share;
mod slow;

use aya_ebpf::macros::btf_tracepoint;
use aya_ebpf::programs::BtfTracePointContext;
use sysprobe_ebpf::kernel::Typed;
use sysprobe_ebpf::socket::is_udp;

/// proto: v5.10- `(struct sk_buff *skb)`; a virtual device, before the packet waits for its softirq
#[btf_tracepoint(function = "netif_rx")]
fn rxpath_virt_tp(ctx: BtfTracePointContext) -> i32 {
    // SAFETY: the argument is the packet.
    arrival::before_softirq(unsafe { Typed::argument(&ctx, 0) });
    0
}

/// proto: v5.10- `(struct sk_buff *skb)`; any device, within the softirq
#[btf_tracepoint(function = "netif_receive_skb")]
fn rxpath_dev_tp(ctx: BtfTracePointContext) -> i32 {
    // SAFETY: the argument is the packet.
    arrival::within_softirq(unsafe { Typed::argument(&ctx, 0) });
    0
}

/// proto: v5.10- `(const struct sk_buff *skb)`; before a packet is steered, from a driver without GRO
#[btf_tracepoint(function = "netif_receive_skb_entry")]
fn rxpath_one_tp(ctx: BtfTracePointContext) -> i32 {
    // SAFETY: the argument is the packet.
    arrival::before_steering(unsafe { Typed::argument(&ctx, 0) });
    0
}

/// proto: v5.10- `(const struct sk_buff *skb)`; the same, for each packet of a list
#[btf_tracepoint(function = "netif_receive_skb_list_entry")]
fn rxpath_list_tp(ctx: BtfTracePointContext) -> i32 {
    // SAFETY: the argument is the packet.
    arrival::before_steering(unsafe { Typed::argument(&ctx, 0) });
    0
}

/// proto: v5.10- `(const struct sk_buff *skb)`; before GRO, which hands packets on without another tracepoint
#[btf_tracepoint(function = "napi_gro_receive_entry")]
fn rxpath_gro_tp(ctx: BtfTracePointContext) -> i32 {
    // SAFETY: the argument is the packet.
    arrival::before_steering(unsafe { Typed::argument(&ctx, 0) });
    0
}

/// proto: v5.10- `(struct sock *sk, struct sk_buff *skb)`; within `tcp_rcv_established`
#[btf_tracepoint(function = "tcp_probe")]
fn rxpath_tcp_tp(ctx: BtfTracePointContext) -> i32 {
    // SAFETY: the arguments are the socket and the segment.
    let (socket, packet) = unsafe { (Typed::argument(&ctx, 0), Typed::argument(&ctx, 1)) };
    segment::arrived(socket, packet);
    0
}

/// proto: v6.3- `(const struct sock *sk)`; within `sock_def_readable` and its like, of every family
#[btf_tracepoint(function = "sk_data_ready")]
fn rxpath_ready_tp(ctx: BtfTracePointContext) -> i32 {
    // SAFETY: the argument is the socket.
    ready::became_ready(unsafe { Typed::argument(&ctx, 0) });
    0
}

/// proto: v5.10- `(struct sock *sk)`; when data was copied to a reader
#[btf_tracepoint(function = "tcp_rcv_space_adjust")]
fn rxpath_read_tp(ctx: BtfTracePointContext) -> i32 {
    // SAFETY: the argument is the socket.
    segment::read(unsafe { Typed::argument(&ctx, 0) });
    0
}

/// proto: v6.3- `(struct sock *sk, int ret, int flags)`
#[btf_tracepoint(function = "sock_recv_length")]
fn rxpath_recv_tp(ctx: BtfTracePointContext) -> i32 {
    // SAFETY: the first argument is the socket.
    let socket = unsafe { Typed::argument(&ctx, 0) };
    if is_udp(socket) {
        datagram::received(socket, ctx.arg(1), ctx.arg(2));
    }
    0
}

sysprobe_ebpf::object!();
