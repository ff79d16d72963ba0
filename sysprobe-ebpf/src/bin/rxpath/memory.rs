//! The records of sockets, in socket storage.

use aya_ebpf::macros::btf_map;
use sysprobe_common::rxpath::{RxpathLoss, Unread};
pub(crate) use sysprobe_ebpf::atomic::replace_u64 as replace;
pub(crate) use sysprobe_ebpf::cgroup::owner_of_current as current;
use sysprobe_ebpf::kernel::Typed;
pub(crate) use sysprobe_ebpf::socket::tcp;
use sysprobe_ebpf::storage::{Budget, SocketStorage};

use crate::losses::lose;
use crate::share;

/// A socket, as the modules that both objects share see it.
pub(crate) type Sock = Typed;

#[unsafe(link_section = ".maps")]
#[unsafe(export_name = "RXPATH_SOCKETS")]
static RXPATH_SOCKETS: SocketStorage<Unread> = SocketStorage::new();
#[btf_map]
static RXPATH_BUDGET: Budget = Budget::new();

/// The record of a socket, if it has one.
#[inline(always)]
pub(crate) fn known(socket: Sock) -> Option<&'static mut Unread> {
    // SAFETY: the storage stays valid while the socket does. For TCP, the socket's lock keeps programs apart;
    // for UDP, whole words are written.
    let unread = unsafe { &mut *RXPATH_SOCKETS.get(socket)? };
    share::forget_stale(unread);
    Some(unread)
}

/// Creates the record of a socket, if the budget has room.
#[inline(always)]
pub(crate) fn insert(socket: Sock, new: &mut Unread) {
    RXPATH_SOCKETS.make(socket, new, &RXPATH_BUDGET, || lose(RxpathLoss::NoMemory));
}
