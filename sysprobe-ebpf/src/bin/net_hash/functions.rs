//! Calls by kprobes and kretprobes, at each protocol's own functions (`struct proto`). The functions above
//! them are TCP's, too: each of its calls would pay, and take one of the few places that a kretprobe has.

use aya_ebpf::btf_maps::HashMap;
use aya_ebpf::helpers::bpf_get_current_pid_tgid;
use aya_ebpf::macros::{btf_map, kprobe, kretprobe};
use aya_ebpf::programs::{ProbeContext, RetProbeContext};
use sysprobe_common::net::{Call, NetLoss};
use sysprobe_ebpf::cgroup::owner_of_current_by_address;
use sysprobe_ebpf::globals;
use sysprobe_ebpf::kernel::{Address, Object as _};
use sysprobe_ebpf::socket::is_version_6;

use crate::accounting::lose;
use crate::traffic;

globals!(PARAMS_PROTO_RECEIVE);

/// With `noblock` and `addr_len`.
const PARAMS_WITH_NOBLOCK: u32 = 6;

/// Calls in progress, by process and thread id. Sized by the agent.
#[btf_map]
static NET_CALLS: HashMap<u64, Call, 1> = HashMap::new();

/// The cgroup that uses a socket is the current task's.
#[inline(always)]
pub(crate) fn caller(_socket: Address) -> u64 {
    owner_of_current_by_address()
}

#[inline(always)]
fn socket(ctx: &ProbeContext) -> Address {
    Address(ctx.arg(0).unwrap_or(0))
}

/// An entry that a missed return has left must not get this call's result.
#[inline(always)]
fn begin(socket: Address, flags: u32) {
    let thread = bpf_get_current_pid_tgid();
    if NET_CALLS.remove(thread).is_ok() {
        lose(NetLoss::EndMissed);
    }
    let call = Call { socket: socket.address(), flags, pad: 0 };
    if traffic::kind(socket).is_some() && NET_CALLS.insert(thread, call, 0).is_err() {
        lose(NetLoss::CallTableFull);
    }
}

/// The flags of a call that receives. Before 5.19, `noblock` is a parameter of its own before them; it is 0
/// or `MSG_DONTWAIT`.
#[inline(always)]
fn flags(ctx: &ProbeContext) -> u32 {
    let flags: u32 = ctx.arg(3).unwrap_or(0);
    // Each place is a constant, because the verifier refuses a computed one.
    if PARAMS_PROTO_RECEIVE.load() == PARAMS_WITH_NOBLOCK {
        flags | ctx.arg::<u32>(4).unwrap_or(0)
    } else {
        flags
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

/// The call has returned.
#[inline(always)]
fn sent(ctx: &RetProbeContext) {
    if let Some((call, result)) = end(ctx) {
        traffic::sent(Address(call.socket), caller, result);
    }
}

/// proto: v5.10- `int udp_sendmsg(struct sock *sk, struct msghdr *msg, size_t len)`
///
/// `udpv6_sendmsg` calls it for an IPv4 address of an IPv6 socket. Then that call has begun already, and the
/// first of the two returns ends it.
#[kprobe]
fn net_txudp4_in(ctx: ProbeContext) -> u32 {
    let socket = socket(&ctx);
    if !is_version_6(socket) {
        begin(socket, 0);
    }
    0
}

#[kretprobe]
fn net_txudp4_out(ctx: RetProbeContext) -> u32 {
    sent(&ctx);
    0
}

macro_rules! sending {
    ($($entry:ident $return:ident)+) => {$(
        #[kprobe]
        fn $entry(ctx: ProbeContext) -> u32 {
            begin(socket(&ctx), 0);
            0
        }

        #[kretprobe]
        fn $return(ctx: RetProbeContext) -> u32 {
            sent(&ctx);
            0
        }
    )+};
}

macro_rules! receiving {
    ($($entry:ident $return:ident)+) => {$(
        #[kprobe]
        fn $entry(ctx: ProbeContext) -> u32 {
            begin(socket(&ctx), flags(&ctx));
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

// proto: v5.10- `int udpv6_sendmsg(struct sock *sk, struct msghdr *msg, size_t len)`, likewise `raw_sendmsg`,
// `rawv6_sendmsg`, `ping_v4_sendmsg`, `ping_v6_sendmsg` and `sctp_sendmsg`
sending! {
    net_txudp6_in net_txudp6_out
    net_txraw4_in net_txraw4_out
    net_txraw6_in net_txraw6_out
    net_txping4_in net_txping4_out
    net_txping6_in net_txping6_out
    net_txsctp_in net_txsctp_out
}
// proto: v5.10-v5.18 `int udp_recvmsg(struct sock *sk, struct msghdr *msg, size_t len, int noblock, int
// flags, int *addr_len)`; v5.19- `int udp_recvmsg(struct sock *sk, struct msghdr *msg, size_t len, int flags,
// ...)`; likewise `udpv6_recvmsg`, `raw_recvmsg`, `rawv6_recvmsg`, `ping_recvmsg` and `sctp_recvmsg`
receiving! {
    net_rxudp4_in net_rxudp4_out
    net_rxudp6_in net_rxudp6_out
    net_rxraw4_in net_rxraw4_out
    net_rxraw6_in net_rxraw6_out
    net_rxping_in net_rxping_out
    net_rxsctp_in net_rxsctp_out
}

/// Removes the entry of a thread that exits.
/// proto: v5.10- `void do_exit(long code)`
#[kprobe]
fn net_gone_kp(_ctx: ProbeContext) -> u32 {
    remove(bpf_get_current_pid_tgid());
    0
}
