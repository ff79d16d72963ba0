//! The same hooks as BPF trampolines, on the functions that contain the tracepoints.

use aya_ebpf::macros::{fentry, fexit};
use aya_ebpf::programs::{FEntryContext, FExitContext};
use sysprobe_ebpf::kernel::Typed;
use sysprobe_ebpf::socket::is_tcp;

use crate::{lifecycle, socket};

/// The first argument of each is a socket.
#[inline(always)]
fn socket_of(ctx: &FEntryContext) -> Typed {
    // SAFETY: see above.
    unsafe { Typed::new(ctx.arg(0)) }
}

/// proto: v5.10- `void inet_sk_state_store(struct sock *sk, int newstate)`; the socket still has the old
/// state
#[fentry]
fn tcp_state_in(ctx: FEntryContext) -> i32 {
    change(socket_of(&ctx), ctx.arg(1));
    0
}

/// proto: v5.10- `void inet_sk_set_state(struct sock *sk, int state)`;
/// for sockets that no other task can see yet
#[fentry]
fn tcp_born_in(ctx: FEntryContext) -> i32 {
    change(socket_of(&ctx), ctx.arg(1));
    0
}

#[inline(always)]
fn change(socket: Typed, to: u32) {
    if is_tcp(socket) {
        lifecycle::changed(socket, socket::state(socket), to);
    }
}

/// proto: v5.10- `void tcp_v4_destroy_sock(struct sock *sk)`, for IPv6 as well
#[fentry]
fn tcp_end_in(ctx: FEntryContext) -> i32 {
    lifecycle::ended(socket_of(&ctx));
    0
}

/// proto: v5.10- `void tcp_rcv_space_adjust(struct sock *sk)`; when data was copied to a reader
#[fentry]
fn tcp_read_in(ctx: FEntryContext) -> i32 {
    lifecycle::read(socket_of(&ctx));
    0
}

/// proto: v5.10- `int tcp_rtx_synack(const struct sock *sk, struct request_sock *req)`; 0 if it was sent
#[fexit]
fn tcp_synack_out(ctx: FExitContext) -> i32 {
    if ctx.arg::<u32>(2) == 0 {
        // SAFETY: the first argument is the listening socket, the second the connection request.
        let (listening, asked) = unsafe { (Typed::new(ctx.arg(0)), Typed::new(ctx.arg(1))) };
        lifecycle::repeated_synack(listening, asked);
    }
    0
}
