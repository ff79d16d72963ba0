//! TCP: the traffic, losses, waits and failures of connections, and their round-trip times, by owner.
//!
//! The kernel keeps exact totals in every socket (`tcp_sock.segs_out`, `bytes_received`, `total_retrans`...).
//! Nothing is counted per packet, and no program runs per segment. The totals are read when a socket is
//! freed, when it gets another owner, and by an iterator before the agent reads, and their growth since the
//! last time is added.
#![no_std]
#![no_main]
#![expect(clippy::inline_always, reason = "a BPF-to-BPF call costs more than these bodies")]
#![expect(clippy::needless_pass_by_value, reason = "the macros call programs with an owned context")]

mod accounting;
mod functions;
mod lifecycle;
mod losses;
mod memory;
mod multipath;
mod overflow;
mod readers;
mod round_trip;
mod scan;
mod socket;

use core::ffi::c_void;

use aya_ebpf::macros::btf_tracepoint;
use aya_ebpf::programs::BtfTracePointContext;
use sysprobe_common::tcp::Count;
use sysprobe_ebpf::iteration::{end_part_if_due, socket_of_task};
use sysprobe_ebpf::kernel::Typed;
use sysprobe_ebpf::socket::is_tcp;

use scan::TCP_PART_END;

/// A socket, as the modules that both objects share see it.
type Sock = Typed;

/// Whether a scan accounts for all sockets and counts them before the agent reads.
const HAS_SCAN: bool = true;

/// proto: v5.10- `(const struct sock *sk, const int oldstate, const int newstate)`
#[btf_tracepoint(function = "inet_sock_set_state")]
fn tcp_state_tp(ctx: BtfTracePointContext) -> i32 {
    // SAFETY: the first argument is the socket.
    let socket = unsafe { Typed::argument(&ctx, 0) };
    if is_tcp(socket) {
        lifecycle::changed(socket, ctx.arg(1), ctx.arg(2));
    }
    0
}

/// proto: v5.10- `(struct sock *sk)`
#[btf_tracepoint(function = "tcp_destroy_sock")]
fn tcp_end_tp(ctx: BtfTracePointContext) -> i32 {
    // SAFETY: the argument is the socket.
    lifecycle::ended(unsafe { Typed::argument(&ctx, 0) });
    0
}

/// proto: v5.10- `(struct sock *sk)`; when data was copied to a reader
#[btf_tracepoint(function = "tcp_rcv_space_adjust")]
fn tcp_read_tp(ctx: BtfTracePointContext) -> i32 {
    // SAFETY: the argument is the socket.
    lifecycle::read(unsafe { Typed::argument(&ctx, 0) });
    0
}

/// proto: v5.10- `(const struct sock *sk, const struct request_sock *req)`
#[btf_tracepoint(function = "tcp_retransmit_synack")]
fn tcp_synack_tp(ctx: BtfTracePointContext) -> i32 {
    // SAFETY: the first argument is the listening socket, the second the connection request.
    let (listening, asked) = unsafe { (Typed::argument(&ctx, 0), Typed::argument(&ctx, 1)) };
    lifecycle::repeated_synack(listening, asked);
    0
}

/// proto: v5.10- `(const struct sock *sk, const struct sk_buff *skb)`; v6.10- also without a socket
#[btf_tracepoint(function = "tcp_send_reset")]
fn tcp_rst_out_tp(ctx: BtfTracePointContext) -> i32 {
    // SAFETY: the first argument is the socket, or null.
    lifecycle::reset(unsafe { Typed::argument(&ctx, 0) }, Count::ResetsSent);
    0
}

/// proto: v5.10- `(struct sock *sk)`
#[btf_tracepoint(function = "tcp_receive_reset")]
fn tcp_rst_in_tp(ctx: BtfTracePointContext) -> i32 {
    // SAFETY: the argument is the socket.
    lifecycle::reset(unsafe { Typed::argument(&ctx, 0) }, Count::ResetsReceived);
    0
}

/// The members of `bpf_iter__bpf_sk_storage_map` that are used.
#[repr(C)]
struct StorageIteration {
    meta: u64,
    map: u64,
    socket: *const u8,
}

/// Accounts for every socket with a record, and counts it. The agent runs this when it is asked, at a bounded
/// rate.
#[unsafe(link_section = "iter/bpf_sk_storage_map")]
#[unsafe(no_mangle)]
extern "C" fn tcp_scan(ctx: *mut c_void) -> i32 {
    // SAFETY: the kernel passes a `bpf_iter__bpf_sk_storage_map`.
    let socket = unsafe { (*ctx.cast::<StorageIteration>()).socket };
    if !socket.is_null() {
        // SAFETY: the program is an iterator.
        unsafe { end_part_if_due(ctx, &TCP_PART_END) };
        // SAFETY: not null, so it is a typed socket.
        scan::take(unsafe { Typed::new(socket) });
    }
    0
}

/// The same for every socket that a task has open, where the kernel refuses iterators over maps.
#[unsafe(link_section = "iter/task_file")]
#[unsafe(no_mangle)]
extern "C" fn tcp_scan_fd(ctx: *mut c_void) -> i32 {
    // SAFETY: the context is that of an `iter/task_file` program.
    if let Some((_, socket)) = unsafe { socket_of_task(ctx, &TCP_PART_END) } {
        scan::take(socket);
    }
    0
}

/// Records a socket that is older than the agent, with its totals as the baseline.
#[unsafe(link_section = "iter/task_file")]
#[unsafe(no_mangle)]
extern "C" fn tcp_seed(ctx: *mut c_void) -> i32 {
    // SAFETY: the context is that of an `iter/task_file` program.
    if let Some((task, socket)) = unsafe { socket_of_task(ctx, &TCP_PART_END) } {
        scan::register(task, socket);
    }
    0
}

sysprobe_ebpf::object!();
