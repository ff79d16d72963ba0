//! The owner of a socket: the cgroup that used it last. It is stored only if it is not the cgroup that
//! created the socket, where the kernel keeps that one (5.15, default hierarchy). TCP connections belong to
//! `tcp`.

use core::ffi::c_void;

use aya_ebpf::macros::btf_map;
use sysprobe_common::net::{NetLoss, Socket};
use sysprobe_ebpf::cgroup::owner_of_current;
use sysprobe_ebpf::kernel::{Object as _, Typed};
use sysprobe_ebpf::packet::sender;
use sysprobe_ebpf::socket::{is_tcp, maker};
use sysprobe_ebpf::storage::{Budget, SocketStorage};
use sysprobe_ebpf::{globals, shared};

use crate::accounting::lose;
use crate::drops;

#[unsafe(link_section = ".maps")]
#[unsafe(export_name = "NET_SOCKETS")]
static NET_SOCKETS: SocketStorage<Socket> = SocketStorage::new();
#[btf_map]
static NET_BUDGET: Budget = Budget::new();

globals!(
    /// 1 where `tcp` keeps its records of sockets in socket storage.
    CFG_TCP_SOCKETS,
);

#[inline(always)]
fn known(socket: Typed) -> Option<&'static mut Socket> {
    // SAFETY: the storage stays valid while the socket does; its one number is written whole.
    NET_SOCKETS.get(socket).map(|remembered| unsafe { &mut *remembered })
}

/// The current task uses the socket, so its cgroup becomes the owner.
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

/// Sets the owner if none is stored.
#[inline(always)]
pub(crate) fn set_first(socket: Typed, owner: u64) {
    if known(socket).is_none() {
        remember(socket, owner);
    }
}

#[inline(always)]
fn remember(socket: Typed, owner: u64) {
    if maker(socket) != owner {
        let mut new = Socket { owner };
        NET_SOCKETS.make(socket, &mut new, &NET_BUDGET, || lose(NetLoss::NoMemory));
    }
}

#[inline(always)]
pub(crate) fn of(socket: Typed) -> u64 {
    let remembered = if is_tcp(socket) { of_tcp(socket) } else { known(socket).map(|known| known.owner) };
    remembered.unwrap_or_else(|| maker(socket))
}

#[inline(always)]
fn of_tcp(socket: Typed) -> Option<u64> {
    if CFG_TCP_SOCKETS.load() == 0 {
        return None;
    }
    shared::tcp_socket(socket).map(|remembered| remembered.owner)
}

/// The owner of the receiving socket of a packet, if the kernel passes that, or else of the sending one.
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
