//! Calls by kprobes and kretprobes.

use aya_ebpf::btf_maps::HashMap;
use aya_ebpf::helpers::bpf_get_current_pid_tgid;
use aya_ebpf::macros::{btf_map, kprobe, kretprobe};
use aya_ebpf::programs::{ProbeContext, RetProbeContext};
use sysprobe_common::net::{Call, NetLoss};
use sysprobe_ebpf::cgroup::owner_of_current_by_address as caller;
use sysprobe_ebpf::kernel::{Address, Object as _};
use sysprobe_ebpf::socket::of_file;

use crate::booking::lose;
use crate::traffic;

/// Calls in progress, by process and thread id. Sized by the agent.
#[btf_map]
static NET_CALLS: HashMap<u64, Call, 1> = HashMap::new();

/// Runs for any call, including TCP's, because an entry left by a missed return must not get another call's
/// result.
#[inline(always)]
fn begin(ctx: &ProbeContext, flags: u32) {
    let Some(socket) = of_file(Address(ctx.arg(0).unwrap_or(0))) else { return };
    let thread = bpf_get_current_pid_tgid();
    if NET_CALLS.remove(thread).is_ok() {
        lose(NetLoss::EndMissed);
    }
    let call = Call { socket: socket.address(), flags, pad: 0 };
    if traffic::kind(socket).is_some() && NET_CALLS.insert(thread, call, 0).is_err() {
        lose(NetLoss::CallTableFull);
    }
}

/// The returning call, and its result.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the lower half of the register, with its sign")]
fn end(ctx: &RetProbeContext) -> Option<(Call, i32)> {
    let thread = bpf_get_current_pid_tgid();
    // SAFETY: an entry is removed by its own thread only.
    let call = unsafe { NET_CALLS.get(thread) }.copied()?;
    remove(thread);
    Some((call, ctx.ret::<u64>() as i32))
}

#[inline(always)]
#[expect(clippy::let_underscore_must_use, reason = "most threads that end are in no call")]
fn remove(thread: u64) {
    let _ = NET_CALLS.remove(thread);
}

macro_rules! sending {
    ($($entry:ident $return:ident)+) => {$(
        #[kprobe]
        fn $entry(ctx: ProbeContext) -> u32 {
            begin(&ctx, 0);
            0
        }

        #[kretprobe]
        fn $return(ctx: RetProbeContext) -> u32 {
            if let Some((call, result)) = end(&ctx) {
                traffic::sent(Address(call.socket), caller, result);
            }
            0
        }
    )+};
}

macro_rules! receiving {
    ($($entry:ident $return:ident)+) => {$(
        #[kprobe]
        fn $entry(ctx: ProbeContext) -> u32 {
            begin(&ctx, ctx.arg(3).unwrap_or(0));
            0
        }

        #[kretprobe]
        fn $return(ctx: RetProbeContext) -> u32 {
            if let Some((call, result)) = end(&ctx) {
                traffic::received(Address(call.socket), caller, result, call.flags);
            }
            0
        }
    )+};
}

// proto: v5.10- `int inet_sendmsg(struct socket *sock, struct msghdr *msg, size_t size)`, likewise
// `inet6_sendmsg`
sending! {
    net_send4_in net_send4_out
    net_send6_in net_send6_out
}
// proto: v5.10- `int inet_recvmsg(struct socket *sock, struct msghdr *msg, size_t size, int flags)`, likewise
// `inet6_recvmsg`, and `sock_common_recvmsg` for raw IPv6 sockets
receiving! {
    net_recv4_in net_recv4_out
    net_recv6_in net_recv6_out
    net_recvr_in net_recvr_out
}

/// Removes the entry of a thread that exits.
/// proto: v5.10- `void do_exit(long code)`
#[kprobe]
fn net_gone_kp(_ctx: ProbeContext) -> u32 {
    remove(bpf_get_current_pid_tgid());
    0
}
