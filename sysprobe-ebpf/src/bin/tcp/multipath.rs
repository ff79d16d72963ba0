//! MPTCP sockets. A process has one such socket open; the TCP sockets below it, the subflows, are the
//! kernel's. A listening one has a single subflow, the first.

use sysprobe_ebpf::globals;
use sysprobe_ebpf::kernel::{ABSENT, Address, Object as _, Typed};

globals!(
    /// `mptcp_sock.first`; absent where the kernel has no MPTCP.
    OFF_MPTCP_FIRST,
);

/// Read by address, because the verifier knows the object that a file leads to only as a socket.
#[inline(always)]
pub(crate) fn first_subflow(socket: Typed) -> Option<Address> {
    if OFF_MPTCP_FIRST.load() == ABSENT {
        return None;
    }
    Address(socket.address()).follow(&OFF_MPTCP_FIRST).filter(|subflow| subflow.address() != 0)
}
