//! The records of sockets, in a hash by address. Owners are determined as in the other object.

use aya_ebpf::btf_maps::HashMap;
use aya_ebpf::macros::btf_map;
use sysprobe_common::tcp::{Socket, TcpLoss};
pub(crate) use sysprobe_ebpf::cgroup::owner_of_current_by_address as current;
use sysprobe_ebpf::kernel::Address;
pub(crate) use sysprobe_ebpf::socket::{maker as strangers, tcp_by_address as tcp};

use crate::Sock;
use crate::losses::lose;
use crate::socket::original;

/// By address. Sized by the agent. Preallocated, because entries are added while segments are received.
#[btf_map]
static TCP_SOCKETS: HashMap<u64, Socket, 1> = HashMap::new();

/// The owner of a socket that connects: the current task's cgroup.
#[inline(always)]
pub(crate) fn connecting(_socket: Sock) -> u64 {
    current()
}

#[inline(always)]
pub(crate) fn known(socket: Sock) -> Option<&'static mut Socket> {
    // SAFETY: an entry is removed when its socket is freed; until then the socket's lock keeps programs
    // apart.
    TCP_SOCKETS.get_ptr_mut(socket.0).map(|remembered| unsafe { &mut *remembered })
}

#[inline(always)]
pub(crate) fn insert(socket: Sock, new: &mut Socket) -> Option<&'static mut Socket> {
    if TCP_SOCKETS.insert(socket.0, *new, 0).is_err() {
        lose(TcpLoss::NoMemory);
        return None;
    }
    known(socket)
}

/// The hash is preallocated, so there is no budget.
#[inline(always)]
pub(crate) const fn has_room() -> bool {
    true
}

#[inline(always)]
pub(crate) const fn refuse() {}

#[inline(always)]
#[expect(clippy::let_underscore_must_use, reason = "it may not be remembered")]
pub(crate) fn forget(socket: Sock) {
    let _ = TCP_SOCKETS.remove(socket.0);
}

#[inline(always)]
pub(crate) fn heir(socket: Sock, tcp: Sock) -> u64 {
    let listening = known(Address(original(tcp)));
    listening.map_or_else(|| strangers(socket), |remembered| remembered.owner)
}

/// Nothing to do: listening sockets are in the same hash.
#[inline(always)]
pub(crate) const fn listens(_socket: Sock, _owner: u64) {}

#[inline(always)]
pub(crate) const fn listens_no_more(_socket: Sock) {}

/// Not atomic, because only one program at a time accounts for a socket.
#[inline(always)]
pub(crate) fn replace(place: &mut u64, _expected: u64, new: u64) -> bool {
    *place = new;
    true
}

#[inline(always)]
pub(crate) fn replace_narrow(place: &mut u32, _expected: u32, new: u32) -> bool {
    *place = new;
    true
}
