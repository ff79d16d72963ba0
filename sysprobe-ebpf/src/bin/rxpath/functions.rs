//! The same by BPF trampolines, and what only functions tell.

use aya_ebpf::macros::{fentry, fexit};
use aya_ebpf::programs::{FEntryContext, FExitContext};
use sysprobe_ebpf::kernel::Typed;
use sysprobe_ebpf::socket::{is_udp, of_file};

use crate::{arrival, became_ready, datagram, segment};

/// An argument that is a pointer.
#[inline(always)]
fn argument(ctx: &FEntryContext, place: usize) -> Typed {
    // SAFETY: see each program.
    unsafe { Typed::new(ctx.arg(place)) }
}

/// proto: v5.10- `struct sk_buff *ip_rcv_core(struct sk_buff *skb, struct net *net)`
#[fentry]
fn rxpath_ip4_in(ctx: FEntryContext) -> i32 {
    arrival::at_ip(argument(&ctx, 0));
    0
}

/// proto: v5.10- `struct sk_buff *ip6_rcv_core(struct sk_buff *skb, struct net_device *dev, struct net *net)`
#[fentry]
fn rxpath_ip6_in(ctx: FEntryContext) -> i32 {
    arrival::at_ip(argument(&ctx, 0));
    0
}

/// proto: v5.10- `void tcp_rcv_established(struct sock *sk, struct sk_buff *skb)`
#[fentry]
fn rxpath_tcp_in(ctx: FEntryContext) -> i32 {
    segment::arrived(argument(&ctx, 0), argument(&ctx, 1));
    0
}

/// proto: v5.10- `int __udp_enqueue_schedule_skb(struct sock *sk, struct sk_buff *skb)`
#[fentry]
fn rxpath_udp_in(ctx: FEntryContext) -> i32 {
    let socket = argument(&ctx, 0);
    if is_udp(socket) {
        datagram::arrived(socket, argument(&ctx, 1));
    }
    0
}

/// proto: v5.10- `void sock_def_readable(struct sock *sk)`
#[fentry]
fn rxpath_ready_in(ctx: FEntryContext) -> i32 {
    became_ready(argument(&ctx, 0));
    0
}

/// proto: v5.10- `void tcp_rcv_space_adjust(struct sock *sk)`; when something was copied to a reader
#[fentry]
fn rxpath_read_in(ctx: FEntryContext) -> i32 {
    segment::read(argument(&ctx, 0));
    0
}

macro_rules! receiving {
    ($($name:ident)+) => {$(
        #[fexit]
        #[expect(clippy::cast_possible_truncation, reason = "the lower half of the register, with its sign")]
        fn $name(ctx: FExitContext) -> i32 {
            // SAFETY: the first argument is a `struct socket *`.
            let socket = of_file(unsafe { Typed::new(ctx.arg(0)) });
            if let Some(socket) = socket.filter(|socket| is_udp(*socket)) {
                datagram::read(socket, ctx.arg::<u64>(4) as i32, ctx.arg(3));
            }
            0
        }
    )+};
}

// proto: v5.10- `int inet_recvmsg(struct socket *sock, struct msghdr *msg, size_t size, int flags)`, and of version 6
receiving!(rxpath_rcv4_out rxpath_rcv6_out);
