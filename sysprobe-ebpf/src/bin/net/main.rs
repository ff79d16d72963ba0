//! The network beside TCP: datagrams sent and received, and packets dropped, per owner of the socket.
//!
//! The kernel keeps no totals of datagrams per socket, so calls are counted as they return, in the context of
//! the caller. The caller's cgroup owns the socket from then on. Forwarded packets pass no socket and are not
//! attributed.
#![no_std]
#![no_main]
#![expect(clippy::inline_always, reason = "a BPF-to-BPF call costs more than these bodies")]
#![expect(clippy::needless_pass_by_value, reason = "the macros call programs with an owned context")]

mod accounting;
mod drops;
mod functions;
mod owner;
mod traffic;

use core::ffi::c_void;

use aya_ebpf::EbpfContext as _;
use aya_ebpf::macros::{btf_map, btf_tracepoint};
use aya_ebpf::programs::BtfTracePointContext;
use sysprobe_ebpf::cgroup::owner_of_task;
use sysprobe_ebpf::iteration::{PartEnd, socket_of_task};
use sysprobe_ebpf::kernel::Typed;
use sysprobe_ebpf::packet::is_ip;

#[btf_map]
static NET_PART_END: PartEnd = PartEnd::new();

/// proto: v6.3- `(struct sock *sk, int ret, int flags)`
#[btf_tracepoint(function = "sock_send_length")]
fn net_send_tp(ctx: BtfTracePointContext) -> i32 {
    // SAFETY: the first argument is the socket.
    sent(unsafe { Typed::argument(&ctx, 0) }, ctx.arg(1));
    0
}

/// proto: v6.3- `(struct sock *sk, int ret, int flags)`
#[btf_tracepoint(function = "sock_recv_length")]
fn net_recv_tp(ctx: BtfTracePointContext) -> i32 {
    // SAFETY: the first argument is the socket.
    received(unsafe { Typed::argument(&ctx, 0) }, ctx.arg(1), ctx.arg(2));
    0
}

#[inline(always)]
fn sent(socket: Typed, result: i32) {
    traffic::sent(socket, owner::take, result);
}

#[inline(always)]
fn received(socket: Typed, result: i32, flags: u32) {
    traffic::received(socket, owner::take, result, flags);
}

/// proto: v5.17- `(struct sk_buff *skb, void *location, enum skb_drop_reason reason)`;
/// v6.11- `(..., struct sock *rx_sk)`
#[btf_tracepoint(function = "kfree_skb")]
fn net_drop_tp(ctx: BtfTracePointContext) -> i32 {
    // SAFETY: the first argument is the packet.
    let packet = unsafe { Typed::argument(&ctx, 0) };
    if is_ip(packet) {
        // SAFETY: the context is that of this tracepoint.
        let owner = unsafe { owner::of_packet(packet, ctx.as_ptr()) };
        drops::of_packet(owner, ctx.arg(2));
    }
    0
}

/// proto: v5.10- `(int rc, struct sock *sk)`
#[btf_tracepoint(function = "udp_fail_queue_rcv_skb")]
fn net_refuse_tp(ctx: BtfTracePointContext) -> i32 {
    if !drops::tells_receiver() {
        // SAFETY: the second argument is the socket.
        drops::refused(owner::of(unsafe { Typed::argument(&ctx, 1) }));
    }
    0
}

/// Records the owner of a socket that is older than the agent.
#[unsafe(link_section = "iter/task_file")]
#[unsafe(no_mangle)]
extern "C" fn net_seed(ctx: *mut c_void) -> i32 {
    // SAFETY: the context is that of an `iter/task_file` program.
    let found = unsafe { socket_of_task(ctx, &NET_PART_END) };
    if let Some((task, socket)) = found.filter(|(_, socket)| traffic::kind(*socket).is_some()) {
        owner::set_first(socket, owner_of_task(task));
    }
    0
}

sysprobe_ebpf::object!();
