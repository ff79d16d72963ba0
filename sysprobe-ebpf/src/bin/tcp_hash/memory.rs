//! What is remembered of sockets lies in a hash, by their addresses. Whose they are is known as in the other object, but for accepted
//! ones: they have no copy of what is remembered of the socket that listened, and are their maker's.

use aya_ebpf::btf_maps::HashMap;
use aya_ebpf::macros::btf_map;
use sysprobe_common::tcp::Socket;
pub(crate) use sysprobe_ebpf::cgroup::owner_of_current_by_address as current;
use sysprobe_ebpf::kernel::Address;
pub(crate) use sysprobe_ebpf::socket::{maker as strangers, tcp_by_address as tcp};

use crate::booking::settle;
use crate::socket::OFF_TCP_NOW;

/// See the other object.
pub(crate) type Sock = Address;

/// By address. Sized by the agent. Preallocated: it is filled where segments are received.
#[btf_map]
static TCP_SOCKETS: HashMap<u64, Socket, 1> = HashMap::new();

#[inline(always)]
pub(crate) fn known(socket: Sock) -> Option<&'static mut Socket> {
    // SAFETY: an entry is removed when its socket is freed; until then the socket's lock keeps programs apart.
    TCP_SOCKETS.get_ptr_mut(socket.0).map(|remembered| unsafe { &mut *remembered })
}

#[inline(always)]
pub(crate) fn insert(socket: Sock, new: &mut Socket) -> Option<&'static mut Socket> {
    TCP_SOCKETS.insert(socket.0, *new, 0).ok()?;
    known(socket)
}

#[inline(always)]
#[expect(clippy::let_underscore_must_use, reason = "it is there, or nobody remembers it")]
pub(crate) fn forget(socket: Sock) {
    let _ = TCP_SOCKETS.remove(socket.0);
}

#[inline(always)]
pub(crate) fn maker(socket: Sock, _remembered: &Socket) -> u64 {
    strangers(socket)
}

/// A hash cannot be gone over by a program. What listening sockets drop is then not seen: nothing happens to them that they are locked
/// for.
pub(crate) const HAS_CENSUS: bool = false;

/// A tenth of a second, by the socket's clock. To book takes some 25 reads of the kernel's memory, a helper call each.
const OFTEN_ENOUGH: u64 = 100_000;

/// What is booked before the end is booked while the socket is locked.
#[inline(always)]
pub(crate) fn book_on_the_way(tcp: Sock, remembered: &mut Socket) {
    let now = tcp.load_u64(&OFF_TCP_NOW);
    if remembered.owner != 0 && now.wrapping_sub(remembered.visited_us) >= OFTEN_ENOUGH {
        remembered.visited_us = now;
        settle(tcp, remembered, false);
    }
}

/// Only one program at a time books a socket.
#[inline(always)]
pub(crate) fn replace(place: &mut u64, _expected: u64, new: u64) -> bool {
    *place = new;
    true
}
