//! What is remembered of sockets lies with them; and whose they are: of the cgroup that connected one or listens with it, an accepted
//! one of the cgroup that listens; and from its first read by another cgroup on, of that one, since sockets are handed on.

use sysprobe_common::tcp::Socket;
pub(crate) use sysprobe_ebpf::atomic::replace_u64 as replace;
pub(crate) use sysprobe_ebpf::cgroup::owner_of_current as current;
use sysprobe_ebpf::kernel::Typed;
pub(crate) use sysprobe_ebpf::socket::tcp;
use sysprobe_ebpf::storage::SocketStorage;

/// A socket as the modules see it that the objects share.
pub(crate) type Sock = Typed;

#[unsafe(link_section = ".maps")]
#[unsafe(export_name = "TCP_SOCKETS")]
static TCP_SOCKETS: SocketStorage<Socket> = SocketStorage::new();

/// What is remembered of a socket, if anything is.
#[inline(always)]
pub(crate) fn known(socket: Sock) -> Option<&'static mut Socket> {
    // SAFETY: the storage stays valid while the socket does, and what several programs write is written atomically.
    TCP_SOCKETS.get(socket).map(|remembered| unsafe { &mut *remembered })
}

/// `None` for want of memory.
#[inline(always)]
pub(crate) fn insert(socket: Sock, new: &mut Socket) -> Option<&'static mut Socket> {
    // SAFETY: as in `known`.
    TCP_SOCKETS.get_or_insert(socket, new).map(|remembered| unsafe { &mut *remembered })
}

/// The storage goes with the socket.
#[inline(always)]
pub(crate) const fn forget(_socket: Sock) {}

/// Whose a socket is that nobody remembers: nobody knows.
#[inline(always)]
pub(crate) const fn strangers(_socket: Sock) -> u64 {
    0
}

/// An accepted socket has what is remembered of the one that listened.
#[inline(always)]
pub(crate) const fn maker(_socket: Sock, copied: &Socket) -> u64 {
    copied.owner
}

/// Whether all sockets are gone over before the agent reads, which books what they have and counts them.
pub(crate) const HAS_CENSUS: bool = true;

/// The census books.
#[inline(always)]
pub(crate) const fn book_on_the_way(_tcp: Sock, _remembered: &mut Socket) {}
