//! The records of sockets, in a hash by address.

use aya_ebpf::btf_maps::HashMap;
use aya_ebpf::macros::btf_map;
use sysprobe_common::rxpath::{RxpathLoss, Unread};
pub(crate) use sysprobe_ebpf::cgroup::owner_of_current_by_address as current;
use sysprobe_ebpf::kernel::Address;
pub(crate) use sysprobe_ebpf::socket::tcp_by_address as tcp;

use crate::losses::lose;
use crate::share;

/// See the other object.
pub(crate) type Sock = Address;

/// By address. Sized by the agent. Preallocated, because entries are added while packets are received.
#[btf_map]
static RXPATH_SOCKETS: HashMap<u64, Unread, 1> = HashMap::new();

#[inline(always)]
pub(crate) fn known(socket: Sock) -> Option<&'static mut Unread> {
    // SAFETY: an entry is removed when its socket is freed. For TCP, the socket's lock keeps programs apart;
    // for UDP, whole words are written.
    let unread = unsafe { &mut *RXPATH_SOCKETS.get_ptr_mut(socket.0)? };
    share::forget_stale(unread);
    Some(unread)
}

#[inline(always)]
pub(crate) fn insert(socket: Sock, new: &mut Unread) {
    if RXPATH_SOCKETS.insert(socket.0, *new, 0).is_err() {
        lose(RxpathLoss::NoMemory);
    }
}

/// Without compare and exchange, which needs 5.12.
#[inline(always)]
pub(crate) const fn replace(place: &mut u64, expected: u64, new: u64) -> bool {
    let is_expected = *place == expected;
    if is_expected {
        *place = new;
    }
    is_expected
}

/// The socket is freed.
#[inline(always)]
#[expect(clippy::let_underscore_must_use, reason = "it may not be remembered")]
pub(crate) fn forget(socket: Sock) {
    let _ = RXPATH_SOCKETS.remove(socket.0);
}
