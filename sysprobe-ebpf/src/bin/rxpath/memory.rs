//! What is remembered of sockets lies with them.

use sysprobe_common::rxpath::Unread;
pub(crate) use sysprobe_ebpf::atomic::replace_u64 as replace;
pub(crate) use sysprobe_ebpf::cgroup::owner_of_current as current;
use sysprobe_ebpf::kernel::Typed;
pub(crate) use sysprobe_ebpf::socket::tcp;
use sysprobe_ebpf::storage::SocketStorage;

/// A socket as the modules see it that the objects share.
pub(crate) type Sock = Typed;

#[unsafe(link_section = ".maps")]
#[unsafe(export_name = "RXPATH_SOCKETS")]
static RXPATH_SOCKETS: SocketStorage<Unread> = SocketStorage::new();

/// What is remembered of a socket, if anything is.
#[inline(always)]
pub(crate) fn known(socket: Sock) -> Option<&'static mut Unread> {
    // SAFETY: the storage stays valid while the socket does. TCP's lock keeps programs apart; of UDP, whole words are written.
    RXPATH_SOCKETS.get(socket).map(|remembered| unsafe { &mut *remembered })
}

/// `None` for want of memory.
#[inline(always)]
pub(crate) fn insert(socket: Sock, new: &mut Unread) -> Option<&'static mut Unread> {
    // SAFETY: as in `known`.
    RXPATH_SOCKETS.get_or_insert(socket, new).map(|remembered| unsafe { &mut *remembered })
}
