//! What is remembered of sockets lies with them; and whose they are: of the cgroup that connected one or
//! listens with it, an accepted one of the cgroup that listens; and from its first read by another cgroup on,
//! of that one, since sockets are handed on.

use aya_ebpf::btf_maps::HashMap;
use aya_ebpf::macros::btf_map;
use sysprobe_common::cgroup::{KERNEL, ROOT_ID};
use sysprobe_common::tcp::{LISTENERS, Socket, TcpLoss};
pub(crate) use sysprobe_ebpf::atomic::{replace_u32 as replace_narrow, replace_u64 as replace};
pub(crate) use sysprobe_ebpf::cgroup::owner_of_current as current;
use sysprobe_ebpf::kernel::{Object as _, Typed};
use sysprobe_ebpf::socket::maker;
pub(crate) use sysprobe_ebpf::socket::tcp;
use sysprobe_ebpf::storage::{self, Budget, SocketStorage, SpreadStorage, storage_of};

use crate::booking::lose;
use crate::socket::original;

/// A socket as the modules see it that the objects share.
pub(crate) type Sock = Typed;

/// By [`sysprobe_common::tcp::STORAGES`]. The agent puts the maps below into it.
#[btf_map]
static TCP_SOCKETS: SpreadStorage<Socket> = SpreadStorage::new();

macro_rules! storages {
    ($($name:ident)+) => {
        $(#[unsafe(link_section = ".maps")]
        #[unsafe(no_mangle)]
        static $name: SocketStorage<Socket> = SocketStorage::new();)+
    };
}

storages!(
    TCP_SOCKETS_0 TCP_SOCKETS_1 TCP_SOCKETS_2 TCP_SOCKETS_3
    TCP_SOCKETS_4 TCP_SOCKETS_5 TCP_SOCKETS_6 TCP_SOCKETS_7
    TCP_SOCKETS_8 TCP_SOCKETS_9 TCP_SOCKETS_10 TCP_SOCKETS_11
    TCP_SOCKETS_12 TCP_SOCKETS_13 TCP_SOCKETS_14 TCP_SOCKETS_15
);

#[btf_map]
static TCP_BUDGET: Budget = Budget::new();

/// What is remembered of a socket, if anything is.
#[inline(always)]
pub(crate) fn known(socket: Sock) -> Option<&'static mut Socket> {
    // SAFETY: the storage stays valid while the socket does, and what several programs write is written
    // atomically.
    storage_of(&TCP_SOCKETS, socket)?.get(socket).map(|remembered| unsafe { &mut *remembered })
}

/// Whether one more socket can be remembered.
#[inline(always)]
pub(crate) fn has_room() -> bool {
    storage::has_room(&TCP_BUDGET)
}

/// Counts a socket that there was no room for.
#[inline(always)]
pub(crate) fn refuse() {
    storage::refuse(&TCP_BUDGET);
}

/// `None` for want of room or memory.
#[inline(always)]
pub(crate) fn insert(socket: Sock, new: &mut Socket) -> Option<&'static mut Socket> {
    let remembered =
        storage_of(&TCP_SOCKETS, socket)?.get_or_make(socket, new, &TCP_BUDGET, || lose(TcpLoss::NoMemory));
    // SAFETY: as in `known`.
    remembered.map(|remembered| unsafe { &mut *remembered })
}

/// The storage goes with the socket.
#[inline(always)]
pub(crate) const fn forget(_socket: Sock) {}

/// The owner of a socket that is not remembered: it is not known.
#[inline(always)]
pub(crate) const fn strangers(_socket: Sock) -> u64 {
    0
}

/// The owner of a socket that connects: the running task's. A kernel thread connects for the cgroup that the
/// kernel keeps with the socket, if it keeps any: of a further subflow of MPTCP that is its connection's
/// (5.12).
#[inline(always)]
pub(crate) fn connecting(socket: Sock) -> u64 {
    match current() {
        KERNEL => match maker(socket) {
            0 | ROOT_ID => KERNEL,
            owner => owner,
        },
        owner => owner,
    }
}

/// The owner of a listening socket, by its address. Preallocated, for connections come into being in a
/// softirq. What finds no place here has its connections charged to the cgroup that made it.
#[btf_map]
static TCP_LISTENERS: HashMap<u64, u64, { LISTENERS as usize }> = HashMap::new();

/// A task listens on the socket, or had been when the agent started.
#[inline(always)]
pub(crate) fn listens(socket: Sock, owner: u64) {
    listens_at(socket.address(), owner);
}

/// The same by the socket's address.
#[inline(always)]
pub(crate) fn listens_at(address: u64, owner: u64) {
    if TCP_LISTENERS.insert(address, owner, 0).is_err() {
        lose(TcpLoss::TooManyListeners);
    }
}

/// It does no more.
#[inline(always)]
#[expect(clippy::let_underscore_must_use, reason = "there may have been no place for it")]
pub(crate) fn listens_no_more(socket: Sock) {
    let _ = TCP_LISTENERS.remove(socket.address());
}

/// The owner of a connection that is just coming into being: that of the listening socket.
#[inline(always)]
pub(crate) fn heir(socket: Sock, tcp: Sock) -> u64 {
    // SAFETY: an entry is removed when its socket stops listening, and until then nothing writes to it.
    let owner = unsafe { TCP_LISTENERS.get(original(tcp)) };
    owner.copied().unwrap_or_else(|| maker(socket))
}

/// Whether all sockets are gone over before the agent reads, which books what they have and counts them.
pub(crate) const HAS_CENSUS: bool = true;

/// The census books.
#[inline(always)]
pub(crate) const fn book_on_the_way(_tcp: Sock, _remembered: &mut Socket) {}
