//! Sockets of MPTCP. A program has one such socket open; the TCP sockets below it, the subflows, are the
//! kernel's. One that listens has one subflow, the first.

use sysprobe_ebpf::kernel::{ABSENT, Address, Object as _, Typed};
use sysprobe_ebpf::settings;

settings!(
    /// `mptcp_sock.first`; absent where the kernel has no MPTCP.
    OFF_MPTCP_FIRST,
);

/// By its address: of what a file led to, the verifier does not know more than that it is a socket.
#[inline(always)]
pub(crate) fn first_subflow(socket: Typed) -> Option<Address> {
    if OFF_MPTCP_FIRST.load() == ABSENT {
        return None;
    }
    Address(socket.address()).follow(&OFF_MPTCP_FIRST).filter(|subflow| subflow.address() != 0)
}
