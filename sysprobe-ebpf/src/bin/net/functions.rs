//! Calls by BPF trampolines, for kernels without tracepoints for them.

use aya_ebpf::macros::fexit;
use aya_ebpf::programs::FExitContext;
use sysprobe_ebpf::kernel::Typed;
use sysprobe_ebpf::socket::of_file;

use crate::{received, sent};

/// The socket of a call, its first argument.
#[inline(always)]
fn socket(ctx: &FExitContext) -> Option<Typed> {
    // SAFETY: the first argument is a `struct socket *`.
    of_file(unsafe { Typed::new(ctx.arg(0)) })
}

/// A 32-bit result.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the lower half, with its sign")]
fn result(ctx: &FExitContext, place: usize) -> i32 {
    ctx.arg::<u64>(place) as i32
}

macro_rules! sending {
    ($($name:ident)+) => {$(
        #[fexit]
        fn $name(ctx: FExitContext) -> i32 {
            if let Some(socket) = socket(&ctx) {
                sent(socket, result(&ctx, 3));
            }
            0
        }
    )+};
}

macro_rules! receiving {
    ($($name:ident)+) => {$(
        #[fexit]
        fn $name(ctx: FExitContext) -> i32 {
            if let Some(socket) = socket(&ctx) {
                received(socket, result(&ctx, 4), ctx.arg(3));
            }
            0
        }
    )+};
}

// proto: v5.10- `int inet_sendmsg(struct socket *sock, struct msghdr *msg, size_t size)`, likewise
// `inet6_sendmsg`
sending!(net_send4_out net_send6_out);
// proto: v5.10- `int inet_recvmsg(struct socket *sock, struct msghdr *msg, size_t size, int flags)`, likewise
// `inet6_recvmsg`, and `sock_common_recvmsg` for raw IPv6 sockets
receiving!(net_recv4_out net_recv6_out net_recvr_out);
