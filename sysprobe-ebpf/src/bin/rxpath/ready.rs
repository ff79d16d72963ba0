//! A socket of any protocol becomes readable.

use sysprobe_ebpf::socket::{is_tcp, is_udp};

use crate::memory::Sock;
use crate::{datagram, segment};

/// Waiting tasks are about to be notified.
#[inline(always)]
pub(crate) fn became_ready(socket: Sock) {
    if is_tcp(socket) {
        segment::became_ready(socket);
    } else if is_udp(socket) {
        datagram::became_ready(socket);
    }
}
