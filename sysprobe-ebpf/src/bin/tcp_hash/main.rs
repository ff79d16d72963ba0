//! TCP, for attach modes without socket storage: the same numbers as the `tcp` object, except for counts of
//! sockets. The records of sockets are in a hash by address, and helpers read kernel memory, so the verifier
//! needs no types. A connection is accounted for at segments and reads, at most eight times a second, and at
//! its end.
#![no_std]
#![no_main]
#![expect(clippy::inline_always, reason = "a BPF-to-BPF call costs more than these bodies")]
#![expect(clippy::needless_pass_by_value, reason = "the macros call programs with an owned context")]

#[path = "../tcp/accounting.rs"]
mod accounting;
mod functions;
#[path = "../tcp/lifecycle.rs"]
mod lifecycle;
#[path = "../tcp/losses.rs"]
mod losses;
mod memory;
mod readers;
#[path = "../tcp/round_trip.rs"]
mod round_trip;
mod segment;
#[path = "../tcp/socket.rs"]
mod socket;

use aya_ebpf::macros::raw_tracepoint;
use aya_ebpf::programs::RawTracePointContext;
use sysprobe_common::tcp::Count;
use sysprobe_ebpf::kernel::Address;

/// See the other object.
type Sock = Address;

/// No program walks the hash. So drops of listening sockets are not seen, because no hook runs with one
/// locked.
const HAS_SCAN: bool = false;

/// proto: v5.10- `(const struct sock *sk, const int oldstate, const int newstate)`
#[raw_tracepoint(tracepoint = "inet_sock_set_state")]
fn tcp_state_rt(ctx: RawTracePointContext) -> i32 {
    lifecycle::changed(Address(ctx.arg(0)), ctx.arg(1), ctx.arg(2));
    0
}

/// proto: v5.10- `(struct sock *sk)`
#[raw_tracepoint(tracepoint = "tcp_destroy_sock")]
fn tcp_end_rt(ctx: RawTracePointContext) -> i32 {
    lifecycle::ended(Address(ctx.arg(0)));
    0
}

/// proto: v5.10- `(struct sock *sk, struct sk_buff *skb)`; within `tcp_rcv_established`
#[raw_tracepoint(tracepoint = "tcp_probe")]
fn tcp_segment_rt(ctx: RawTracePointContext) -> i32 {
    segment::received(Address(ctx.arg(0)));
    0
}

/// proto: v5.10- `(struct sock *sk)`; when data was copied to a reader
#[raw_tracepoint(tracepoint = "tcp_rcv_space_adjust")]
fn tcp_read_rt(ctx: RawTracePointContext) -> i32 {
    lifecycle::read(Address(ctx.arg(0)));
    0
}

/// proto: v5.10- `(const struct sock *sk, const struct request_sock *req)`
#[raw_tracepoint(tracepoint = "tcp_retransmit_synack")]
fn tcp_synack_rt(ctx: RawTracePointContext) -> i32 {
    lifecycle::repeated_synack(Address(ctx.arg(0)), Address(ctx.arg(1)));
    0
}

/// proto: v5.10- `(const struct sock *sk, const struct sk_buff *skb)`; v6.10- also without a socket
#[raw_tracepoint(tracepoint = "tcp_send_reset")]
fn tcp_rst_out_rt(ctx: RawTracePointContext) -> i32 {
    lifecycle::reset(Address(ctx.arg(0)), Count::ResetsSent);
    0
}

/// proto: v5.10- `(struct sock *sk)`
#[raw_tracepoint(tracepoint = "tcp_receive_reset")]
fn tcp_rst_in_rt(ctx: RawTracePointContext) -> i32 {
    lifecycle::reset(Address(ctx.arg(0)), Count::ResetsReceived);
    0
}

sysprobe_ebpf::object!();
