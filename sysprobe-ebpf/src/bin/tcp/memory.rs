//! The records of sockets, in socket storage; and the owners of sockets. A socket belongs to the cgroup that
//! connected it or listens on it, and an accepted connection to the owner of its listening socket. Sockets
//! are handed on, so a cgroup that reads from one becomes its owner.

use aya_ebpf::btf_maps::HashMap;
use aya_ebpf::macros::btf_map;
use sysprobe_common::cgroup::{KERNEL, ROOT_ID};
use sysprobe_common::tcp::{LISTENERS, Socket, TcpLoss};
pub(crate) use sysprobe_ebpf::atomic::{replace_u32 as replace_narrow, replace_u64 as replace};
pub(crate) use sysprobe_ebpf::cgroup::owner_of_current as current;
use sysprobe_ebpf::kernel::Object as _;
use sysprobe_ebpf::socket::maker;
pub(crate) use sysprobe_ebpf::socket::tcp;
use sysprobe_ebpf::storage::{self, Budget, SocketStorage, SpreadStorage, storage_of};

use crate::Sock;
use crate::losses::lose;
use crate::socket::original;

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

sysprobe_common::tcp_sockets!(storages);

#[btf_map]
static TCP_BUDGET: Budget = Budget::new();

/// The record of a socket, if it has one.
#[inline(always)]
pub(crate) fn known(socket: Sock) -> Option<&'static mut Socket> {
    // SAFETY: the storage stays valid while the socket does, and members that several programs write are
    // written atomically.
    storage_of(&TCP_SOCKETS, socket)?.get(socket).map(|remembered| unsafe { &mut *remembered })
}

/// See [`storage::key_of`].
#[inline(always)]
pub(crate) fn key_of(socket: Sock) -> u64 {
    storage::key_of(&TCP_SOCKETS, socket)
}

/// Whether there is room for one more record.
#[inline(always)]
pub(crate) fn has_room() -> bool {
    storage::has_room(&TCP_BUDGET)
}

/// Counts a socket that found no room for a record.
#[inline(always)]
pub(crate) fn refuse() {
    storage::refuse(&TCP_BUDGET);
}

/// Creates the record of a socket. `None` if there is no room or no memory.
#[inline(always)]
pub(crate) fn insert(socket: Sock, new: &mut Socket) -> Option<&'static mut Socket> {
    let remembered =
        storage_of(&TCP_SOCKETS, socket)?.make(socket, new, &TCP_BUDGET, || lose(TcpLoss::NoMemory));
    // SAFETY: as in `known`.
    remembered.map(|remembered| unsafe { &mut *remembered })
}

/// Nothing to do: the kernel frees the storage with the socket.
#[inline(always)]
pub(crate) const fn forget(_socket: Sock) {}

/// The owner of a socket without a record: known only if it listens.
#[inline(always)]
pub(crate) fn strangers(socket: Sock) -> u64 {
    listener(socket.address()).unwrap_or(0)
}

/// The owner of a socket that connects: the current task's cgroup. A kernel thread connects for the cgroup
/// that the kernel keeps with the socket, if it keeps one. For another subflow of an MPTCP connection that is
/// the connection's cgroup (5.12).
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

/// The owners of listening sockets, by address. Preallocated, because connections are created in a softirq.
/// The connections of a socket without an entry are charged to the cgroup that created it.
#[btf_map]
static TCP_LISTENERS: HashMap<u64, u64, { LISTENERS as usize }> = HashMap::new();

/// A task listens on the socket, or already did when the agent started.
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

/// The socket no longer listens.
#[inline(always)]
#[expect(clippy::let_underscore_must_use, reason = "there may have been no place for it")]
pub(crate) fn listens_no_more(socket: Sock) {
    let _ = TCP_LISTENERS.remove(socket.address());
}

/// The owner of a new connection: that of the listening socket.
#[inline(always)]
pub(crate) fn heir(socket: Sock, tcp: Sock) -> u64 {
    listener(original(tcp)).unwrap_or_else(|| maker(socket))
}

/// The owner of the listening socket at an address.
#[inline(always)]
fn listener(address: u64) -> Option<u64> {
    // SAFETY: an entry is removed when its socket stops listening, and until then nothing writes to it.
    unsafe { TCP_LISTENERS.get(address) }.copied()
}
