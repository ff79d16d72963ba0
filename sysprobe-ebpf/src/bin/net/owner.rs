//! Whose a socket is: of whoever used it last. A connection that nobody has used is its listening socket's owner's.

use core::ffi::c_void;

use sysprobe_common::net::{NetLoss, Socket};
use sysprobe_ebpf::cgroup::owner_of_current;
use sysprobe_ebpf::kernel::{Object as _, Typed};
use sysprobe_ebpf::packet::sender;
use sysprobe_ebpf::socket::maker;
use sysprobe_ebpf::storage::SocketStorage;

use crate::booking::lose;
use crate::drops;

#[unsafe(link_section = ".maps")]
#[unsafe(export_name = "NET_SOCKETS")]
static NET_SOCKETS: SocketStorage<Socket> = SocketStorage::new();

#[inline(always)]
fn known(socket: Typed) -> Option<&'static mut Socket> {
    // SAFETY: the storage stays valid while the socket does; its one number is written whole.
    NET_SOCKETS.get(socket).map(|remembered| unsafe { &mut *remembered })
}

/// The running task uses the socket, which makes it the task's.
#[inline(always)]
pub(crate) fn take(socket: Typed) -> u64 {
    let owner = owner_of_current();
    match known(socket) {
        Some(remembered) => {
            if remembered.owner != owner {
                remembered.owner = owner;
            }
        }
        None => remember(socket, owner),
    }
    owner
}

/// Where nobody is known as the owner.
#[inline(always)]
pub(crate) fn set_first(socket: Typed, owner: u64) {
    if known(socket).is_none() {
        remember(socket, owner);
    }
}

#[inline(always)]
fn remember(socket: Typed, owner: u64) {
    if NET_SOCKETS.get_or_insert(socket, &mut Socket { owner }).is_none() {
        lose(NetLoss::NoMemory);
    }
}

#[inline(always)]
pub(crate) fn of(socket: Typed) -> u64 {
    known(socket).map_or_else(|| maker(socket), |remembered| remembered.owner)
}

/// Of the socket that a packet was for, where the kernel says so, or came from.
///
/// # Safety
///
/// `context` is that of `kfree_skb`.
#[inline(always)]
pub(crate) unsafe fn of_packet(packet: Typed, context: *mut c_void) -> Option<u64> {
    if drops::tells_receiver() {
        // SAFETY: with so many parameters, the fourth is the socket or null.
        let receiver = unsafe { Typed::new(context.cast::<*const u8>().add(3).read()) };
        if receiver.address() != 0 {
            return Some(of(receiver));
        }
    }
    sender(packet).map(of)
}
